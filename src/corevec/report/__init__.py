"""The one-page HTML report of a fitted model: `write_report`."""

from corevec.report._rows import density as density
from corevec.report._rows import sample as sample
from corevec.report._write import write_report

__all__ = ["write_report"]
