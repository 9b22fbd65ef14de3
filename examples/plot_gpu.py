"""
Rows on a GPU
=============

Tensors stay where they are: on a GPU if there is one, else on the CPU, with the same
code. ``pip install "corevec[gpu]"``.
"""

import matplotlib.pyplot as plt
import torch

from corevec import CoreVectorClassifier
from corevec.plots import DecisionMapDisplay

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu":
    print("No GPU here: the example runs on the CPU.")

X = 4 * torch.rand((30_000, 2), generator=torch.Generator().manual_seed(0))
y = (X.floor().sum(dim=1) % 2).long()
X, y = X.to(device), y.to(device)
model = CoreVectorClassifier(C=1000, gamma=0.37, random_state=0).fit(X, y)
predicted = model.predict(X)
print(predicted.device, f"{float((predicted == y).float().mean()):.2%} right")
print(model.certificate_)

# %%
# Pictures are drawn from arrays on the host.

DecisionMapDisplay.from_estimator(model, X.cpu().numpy(), y.cpu().numpy())
plt.title(f"Fitted on {device}")
