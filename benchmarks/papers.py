"""`python -m benchmarks papers`: write docs/papers/, one page per paper.

`python -m benchmarks papers/NAME` first measures what the page of one paper shows.

Each table and figure of a paper's experiments is an `Exhibit`: the command that
measures it, the data, our numbers beside the printed ones, and what agrees. The numbers
are read from results/*.csv (`papers_exhibits.py`); the sentences here hold none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import papers_exhibits as made
from benchmarks import readme_papers as loosli_canu

DOCS = Path(__file__).parents[1] / "docs" / "papers"
RESULTS = "../../benchmarks/results"


@dataclass(frozen=True)
class Exhibit:
    """One table or figure of a paper's experiments.

    `stands_in` says what stands in for what nobody can have: a data set, a program, a
    number that the paper does not print. `missing` says what of it is not reproduced
    yet, and why; nothing where all is.
    """

    name: str
    shows: str
    experiment: str
    data: str
    reading: str
    make: Callable[[], str] | None = None
    pictures: tuple[str, ...] = ()
    stands_in: str = ""
    missing: str = ""

    @property
    def state(self) -> str:
        """Say whether it is reproduced."""
        if self.missing:
            return "with gaps"
        return "yes, with a stand-in" if self.stands_in else "yes"


@dataclass(frozen=True)
class Paper:
    """A paper, and what it shows by experiment."""

    slug: str
    title: str
    source: str
    exhibits: tuple[Exhibit, ...]


OLD_MACHINE = "Seconds are not comparable: the paper's are of {year}."
CVM = Paper(
    "core-vector-machine",
    "Very Large SVM Training using Core Vector Machines",
    "Tsang, Kwok and Cheung, AISTATS 2005",
    (
        Exhibit(
            "Figure 2",
            "checkerboard: time, support vectors and error against the rows",
            "cvm_figures",
            "The 4x4 checkerboard, generated as in the paper, with its C and its "
            "width of the kernel (the mean squared distance).",
            "**Agrees**: the time and the size of the printed CVM hardly grow with the "
            "rows, while every exact solver has to stop early. **Does not agree**: "
            "that it is as accurate as the others. Its rule ends the search before the "
            "machine is solved ([Loosli and Canu](loosli-canu.md) say why), and its "
            "error stays above that of the exact L2-SVM, whose problem it solves. "
            f"{OLD_MACHINE.format(year=2005)}",
            made.cvm_figure("checkerboard"),
            ("cvm_figures.png",),
        ),
        Exhibit(
            "Figure 3",
            "forest cover type: time, support vectors and error against the rows",
            "cvm_figures",
            "covtype, class 2 against the others, as in the paper.",
            "**Agrees**: there are more than ten thousand support vectors, and the "
            "other solvers stop early. **Does not agree**: the printed CVM was ended "
            "by a limit of time in our runs and is not as accurate. With another C the "
            "comparison would be another one; the paper's cannot be known.",
            made.cvm_figure("covtype"),
            stands_in="The paper prints no C, and its width is for columns that it "
            "did not scale: C = gamma = 32 on scaled columns. The LIBSVM of the "
            "squared loss was not published: an SMO of ours solves that problem. LSVM, "
            "RSVM and SimpleSVM are not in the paper's figure.",
        ),
        Exhibit(
            "Figure 4",
            "UCI adult: time, support vectors and error against the rows",
            "cvm_figures",
            "adult (a9a) in the sizes of Platt.",
            "**Agrees**: on few rows the CVM is slower than LIBSVM, and its core set "
            "grows with the rows. **Does not agree**: that it is among the most "
            "accurate. One row a round reaches the limit of time on the larger parts.",
            made.cvm_figure("adult"),
            stands_in="The paper prints neither C nor the width: C = 1, gamma = 0.05.",
        ),
    ),
)
LOOSLI_CANU = Paper(
    "loosli-canu",
    'Comments on the "Core Vector Machines"',
    "Loosli and Canu, 2006 (JMLR 8, 2007)",
    (
        Exhibit(
            "Figures 1 and 2",
            "time, support vectors and errors against the rows, for six settings",
            "loosli_canu_rows",
            "The checkerboard, generated, with their C and gamma and their tolerance "
            "of 1e-6 for the exact solvers.",
            "**Agrees**: at large C the printed CVM has errors that more rows do not "
            "mend, and the exact solvers have almost none; SimpleSVM runs to a million "
            "rows at large C. **Beyond the text**: with the rule on the duality gap "
            "the machine reaches the same errors, certified.",
            loosli_canu.while_rows_grow,
            ("loosli_canu_rows_figures.png",),
        ),
        Exhibit(
            "Figure 3",
            "the influence of C, for all algorithms",
            "loosli_canu",
            "The checkerboard, ten boards from C = 1000 on, with both of their widths.",
            "**Agrees**: the error of the printed CVM rises with C where that of the "
            "exact solvers falls, and LIBSVM needs more and more steps. The first "
            "table has the epsilon that the rule would have needed.",
            lambda: loosli_canu.as_printed() + loosli_canu.at_large_c(),
            ("loosli_canu_sweep.png",),
        ),
    ),
)
CVR = Paper(
    "core-vector-regression",
    "Core Vector Regression for Very Large Regression Problems",
    "Tsang, Kwok and Lai, ICML 2005",
    (
        Exhibit(
            "Table 1",
            "the data sets",
            "regression",
            "Five of the six sets are the paper's.",
            "**Agrees**: rows and columns of those five.",
            made.cvr_table_1,
            stands_in="house_16h, the same census with 16 columns, stands in for the "
            "set with 121 columns, which could not be had.",
        ),
        Exhibit(
            "Figure 2",
            "five regressions: RMSE, MRE, time and support vectors against the rows",
            "regression",
            "The sets of table 1, from a tenth to nine tenths of the rows; every "
            "solver is tuned on 3,000 rows in the same way.",
            "**Agrees**: the errors are SVR's or lower, in less time on many rows. "
            "**Does not agree**: the printed algorithm, which adds one row a round, is "
            "ended by its limit of time and is less accurate there; and that there are "
            "far fewer support vectors than SVR's. An algorithm that stops early has "
            "few; at the certified solution of the paper's own problem, whose loss is "
            "squared, nearly all rows are support vectors.",
            made.cvr_figure(
                *("house_16h", "cpu_act", "elevators", "friedman_100k", "pole")
            ),
            ("regression_against_rows.png",),
            "house_16h for the census set, as in table 1. LIBSVM stands for SVM-light "
            "too, whose licence keeps it out.",
            "Fits of corevec that `max_core` ended are of an earlier version, before "
            "its exact machine.",
        ),
        Exhibit(
            "Figure 3",
            "forest cover type as a regression on +1 and -1",
            "regression",
            "covtype, class 2 against the others, as in the paper, from a tenth to "
            "nine tenths of the rows, and the classification SVM beside it.",
            "**Agrees**: with a sample of the rows the time does not grow with them. "
            "A core set has fewer wrong signs than SVR, which could be waited for on "
            "a part of the rows only.",
            made.cvr_figure_3,
            missing="The classification SVM beside it (on 5,000 to 20,000 rows it is a "
            "case of the experiment, not yet measured); fits that `max_core` ended are "
            "of a version before the exact machine.",
        ),
        Exhibit(
            "Table 2",
            "implicit surfaces: core vectors, support vectors, time",
            "surfaces",
            "The Stanford bunny, as in the paper, and the Stanford dragon.",
            "**Agrees**: a few thousand vectors hold the bunny, in three scales. "
            f"{OLD_MACHINE.format(year=2005)}",
            made.cvr_table_2,
            stands_in="The Stanford dragon (437,645 points) stands in for the skeleton "
            "hand (327,323 points), which could not be had.",
        ),
        Exhibit(
            "Figure 4",
            "the reconstructed models",
            "surfaces",
            "As table 2.",
            "Closed meshes of one piece; the formulation of the paper, without "
            "points off the surface, leaves holes in thin parts (`one-set`).",
            None,
            ("surfaces_bunny.png", "surfaces_bunny_one-set.png", "surfaces_dragon.png"),
            "The dragon stands in for the skeleton hand.",
        ),
    ),
)
CPSP_DATA = "adult, MNIST and ijcnn1 with the paper's splits, and text."
CPSP_STANDS_IN = (
    "20,000 film reviews stand in for Reuters CCAT, which could not be had; that "
    "column is not compared. LIBSVM stands in for SVM-light; CVM, BVM and LASVM are "
    "written anew from their papers."
)
CPSP = Paper(
    "cutting-plane-subspace-pursuit",
    "Sparse Kernel SVMs via Cutting-Plane Training",
    "Joachims and Yu, Machine Learning 76, 2009",
    (
        Exhibit(
            "Table 1",
            "accuracy with 1000 basis vectors",
            "cpsp_tables",
            CPSP_DATA,
            "**Agrees**: CPSP has the accuracy of the exact SVM to a fraction of a "
            "point; the CVM and the BVM stay behind on most sets. "
            "**Does not agree**: where a fit is marked, our limit of time ended it: "
            "CPSP(tr), Nystrom and IncChol are worse on OCR* and ijcnn1. The BVM "
            "always ends at its limit of vectors.",
            made.cpsp_table_1,
            stands_in=CPSP_STANDS_IN,
            missing="C and gamma are chosen for two sizes of the basis, not for each.",
        ),
        Exhibit(
            "Table 2",
            "vectors and time to come within half a point of the exact SVM",
            "cpsp_tables",
            CPSP_DATA,
            "**Agrees**: CPSP needs far fewer vectors than support vectors, and the "
            "fewest of the paper's methods. Its numbers of vectors on adult, OCR0 and "
            f"OCR* are the paper's. {OLD_MACHINE.format(year=2009)}",
            made.cpsp_table_2,
            stands_in=CPSP_STANDS_IN,
            missing="The paper tries eleven sizes for each method; we have all for "
            "CPSP and the pursuit, two for the others, and none above 1000. "
            "`python -m benchmarks cpsp_sizes` measures the others.",
        ),
        Exhibit(
            "Figure 1",
            "accuracy lost against the exact SVM, by basis size",
            "cpsp_tables",
            CPSP_DATA,
            "**Agrees**: vectors that are no training rows lose least, above all where "
            "there are few of them.",
            None,
            ("cpsp_tables_figure_1.png",),
            CPSP_STANDS_IN,
        ),
        Exhibit(
            "Figure 2",
            "the primal objective as a multiple of the exact one",
            "cpsp_tables",
            CPSP_DATA,
            "**Agrees**: the curves resemble those of figure 1.",
            None,
            ("cpsp_tables_figure_2.png",),
            CPSP_STANDS_IN,
        ),
        Exhibit(
            "Figure 3",
            "seconds against basis vectors, and against rows",
            "cpsp_tables",
            CPSP_DATA,
            "**Agrees**: the time grows with the number of vectors, until the limit of "
            "time.",
            made.cpsp_figure_3,
            ("cpsp_tables_figure_3.png",),
            CPSP_STANDS_IN,
            "Against the rows: with 100 vectors in place of 1000; `cpsp_sizes` has the "
            "cases with 1000.",
        ),
    ),
)
STREAM = Paper(
    "streaming-balls",
    "Single Pass SVM using Minimum Enclosing Ball of Streaming Data",
    "Rai, Daumé and Venkatasubramanian, 2008",
    (
        Exhibit(
            "Table 1",
            "accuracy and vectors of a single pass",
            "streaming_table",
            "MNIST and ijcnn1 as in the paper; waveform with two of its three classes.",
            "**Agrees**: a ball is as accurate as printed on most sets, with a few "
            "dozen vectors. **Does not agree**: on MNIST 8-vs-9 it is worse than "
            "printed, and its peers are much better than printed on several sets: one "
            "of them is more accurate on every set here. The paper gives one order of "
            "the rows and does not say how C was chosen.",
            made.stream_table_1,
            stands_in="w8a's rows drawn into w3a's sizes, whose file could not be had. "
            "The synthetic sets A, B and C are made anew, since the paper does not say "
            "how.",
        ),
    ),
)
PAPERS = (CVM, LOOSLI_CANU, CVR, CPSP, STREAM)


def main():
    DOCS.mkdir(exist_ok=True)
    for paper in PAPERS:
        (DOCS / f"{paper.slug}.md").write_text(page(paper))
    (DOCS / "index.md").write_text(index())


def experiments_of(slug):
    """Return the names of the experiments that a paper's page shows, each once."""
    found = {paper.slug: paper for paper in PAPERS}
    if slug not in found:
        raise SystemExit(f"there is no paper {slug!r}; there are {', '.join(found)}")
    return list(dict.fromkeys(one.experiment for one in found[slug].exhibits))


def page(paper):
    """Return the page of a paper."""
    parts = [
        f"# {paper.title}",
        f"{paper.source}. `python -m benchmarks papers/{paper.slug}` measures all of "
        "it (hours; `--quick`: minutes, on few rows), goes on where it was stopped, "
        "and writes this page from `benchmarks/results/`. [All papers](index.md).",
        made.grid(
            ["", "shows", "reproduced"],
            [[e.name, e.shows, e.state] for e in paper.exhibits],
        ),
    ]
    for exhibit in paper.exhibits:
        parts += section(exhibit)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def section(exhibit):
    """Return the parts of an exhibit's section."""
    name = exhibit.experiment
    parts = [
        f"## {exhibit.name}: {exhibit.shows}",
        f"`python -m benchmarks {name}` measures it (`--quick`: tiny, to see it run), "
        "and goes on where it was stopped. Every fit: "
        f"[{name}]({RESULTS}/{name}.md).",
        f"**Data.** {exhibit.data}",
    ]
    if exhibit.stands_in:
        parts.append(f"**Stands in.** {exhibit.stands_in}")
    if exhibit.make is not None:
        parts.append(exhibit.make())
    parts += [
        f"[![{exhibit.name}, measured by us]({RESULTS}/{picture})]({RESULTS}/{picture})"
        for picture in exhibit.pictures
    ]
    parts.append(exhibit.reading)
    if exhibit.missing:
        parts.append(f"**Not reproduced yet.** {exhibit.missing}")
    return parts


def index():
    """Return the page that lists the papers."""
    states = ("yes", "yes, with a stand-in", "with gaps")
    lines, totals = [], [0] * len(states)
    for paper in PAPERS:
        counts = [0] * len(states)
        for exhibit in paper.exhibits:
            # "Figures 1 and 2" are two.
            counts[states.index(exhibit.state)] += len(exhibit.name.split(" and "))
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        link = f"[{paper.title}]({paper.slug}.md)"
        lines.append([link, paper.source, *(f"{count}" for count in counts)])
    heads = ["paper", "", "reproduced", "with a stand-in", "with gaps"]
    whole, stand_ins, gaps = totals
    toc = "\n".join([*(paper.slug for paper in PAPERS), "../loosli-canu"])
    return f"""# Papers

Five papers stand behind corevec. Each has a page with every table and figure of its
experiments: the command that measures it, the data and what stands in for data that
nobody has, our numbers beside the printed ones, what agrees, and what does not and why.
Figures are printed without their values: their curves are compared in words.

{made.grid(heads, lines)}

Of {sum(totals)} tables and figures {whole} are reproduced, {stand_ins} with a stand-in
for data, a program or a number that nobody can have, and {gaps} have gaps, which their
sections name. Drawings that explain an idea are not counted. Results are of the commit
that each results page names; some are older than the newest solvers.

Written by `python -m benchmarks papers` from `benchmarks/results/`. What the criticism
of Loosli and Canu led to is told in [The criticism](../loosli-canu.md); what our own
methods add to the tables is in [Measured](../measured.md).

```{{toctree}}
:hidden:

{toc}
```
"""
