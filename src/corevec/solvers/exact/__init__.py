"""The exact machine over all rows: finite Newton steps, conjugate gradients."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__,
    {
        "active_rows": "ActiveRows",
        "ascent": "Ascent",
        "components": "Components",
        "gram": "BlockGram LEVEL_ERROR SquareGram TiledGram levels_serve",
        "path": "PathMatrix PathPoint",
        "preconditioner": "Landmarks Later LowRank",
        "solve": "Exact",
        "working_set": "WorkingSet",
    },
)
