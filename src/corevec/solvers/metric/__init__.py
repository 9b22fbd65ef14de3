"""A diagonal metric of the kernel's distance, learned from the rows."""

from corevec._runtime.rooms import on_demand

__all__, __getattr__ = on_demand(
    __name__, {"learn": "Form Learned MetricTask draw_regions learn sample_size"}
)
