"""Normals of a point cloud: estimated from neighbours, oriented consistently.

Hoppe, DeRose, Duchamp, McDonald and Stuetzle, "Surface reconstruction from
unorganized points", SIGGRAPH 1992: the normal of a point is the direction in which its
nearest neighbours vary least, and its sign is carried from neighbour to neighbour along
the minimum spanning tree of the costs ``1 - |n_i . n_j|``, so that it crosses sharp
edges last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from corevec._runtime.types import Array

# Added to every cost of the graph: SciPy reads a stored 0 as "no edge".
_LEAST_COST = 1e-6


@dataclass(frozen=True)
class Cloud:
    """Points, their search tree, and their neighbours.

    Attributes
    ----------
    points : ndarray of shape (n, 3)
        Distinct points.
    tree : cKDTree
        Search tree of the points.
    neighbors : ndarray of shape (n, k)
        The nearest other points of each point, nearest first.
    areas : ndarray of shape (n,)
        Area of the surface per point: k points share the disc that extends to the
        k-th neighbour.
    """

    points: Array
    tree: cKDTree
    neighbors: Array
    areas: Array

    @property
    def spacing(self) -> float:
        """Typical distance of neighbouring points: root of the median area."""
        return float(np.sqrt(np.median(self.areas)))


def make_cloud(points: Array, n_neighbors: int) -> Cloud:
    """Return the cloud of `points`, with at most `n_neighbors` neighbours each."""
    tree = cKDTree(points)
    k = min(n_neighbors, len(points) - 1)
    distances, neighbors = tree.query(points, k + 1)
    areas = np.pi * distances[:, -1] ** 2 / (k + 1)
    return Cloud(points, tree, neighbors[:, 1:], areas)


def estimate_normals(cloud: Cloud) -> Array:
    """Return unit normals of shape (n, 3), pointing outward.

    Each connected component of the neighbour graph is oriented so that its enclosed
    volume is positive (all of its points contribute, whereas Hoppe uses the single
    highest one). Separate components are assumed to lie beside each other, because
    points alone do not distinguish a cavity from a second body.
    """
    normals = _flattest_directions(cloud)
    tree, part = _spanning_forest(cloud, normals)
    normals *= _carried_signs(tree, part, normals)[:, None]
    return _outward(cloud, normals, part)


def outward_as_a_whole(cloud: Cloud, normals: Array) -> Array:
    """Return the given normals, all flipped if they enclose a negative volume."""
    one_part = np.zeros(len(normals), dtype=np.int64)
    return _outward(cloud, normals, one_part)


def _flattest_directions(cloud: Cloud) -> Array:
    """Return the direction of least variance of each point and its neighbours."""
    group = np.column_stack([np.arange(len(cloud.points)), cloud.neighbors])
    near = cloud.points[group]
    near = near - near.mean(axis=1, keepdims=True)
    scatter = np.einsum("nki,nkj->nij", near, near)
    return np.ascontiguousarray(np.linalg.eigh(scatter)[1][:, :, 0])


def _spanning_forest(cloud: Cloud, normals: Array) -> tuple[sparse.csr_array, Array]:
    """Return the minimum spanning forest, and the component of each point."""
    n, k = cloud.neighbors.shape
    start = np.repeat(np.arange(n), k)
    end = cloud.neighbors.ravel()
    agreement = np.abs(np.einsum("ij,ij->i", normals[start], normals[end]))
    costs = np.maximum(1.0 - agreement, 0.0) + _LEAST_COST
    low, high = np.minimum(start, end), np.maximum(start, end)
    # An edge that is found from both ends would be summed: keep it once.
    _, once = np.unique(low * np.int64(n) + high, return_index=True)
    graph = sparse.csr_array((costs[once], (low[once], high[once])), shape=(n, n))
    forest = csgraph.minimum_spanning_tree(graph)
    _, part = csgraph.connected_components(forest, directed=False)
    return forest, part


def _carried_signs(forest: sparse.csr_array, part: Array, normals: Array) -> Array:
    """Return +-1 per point: the product of the signs along the path to the root."""
    parent = _parents(forest, part)
    agreement = np.einsum("ij,ij->i", normals, normals[parent])
    signs = np.where(agreement < 0, -1.0, 1.0)
    # Pointer jumping: each round doubles the covered path length.
    while (parent != parent[parent]).any():
        signs *= signs[parent]
        parent = parent[parent]
    return signs


def _parents(forest: sparse.csr_array, part: Array) -> Array:
    """Return the parent of each point in its tree; a root is its own parent.

    One search for all trees, from an extra node that is connected to every root.
    """
    n = len(part)
    roots = np.unique(part, return_index=True)[1]
    edges = forest.tocoo()
    rows = np.concatenate([edges.row, np.full(len(roots), n)])
    columns = np.concatenate([edges.col, roots])
    joined = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (n + 1, n + 1))
    _, parent = csgraph.breadth_first_order(joined, n, directed=False)
    parent[roots] = roots
    return np.asarray(parent[:n])


def _outward(cloud: Cloud, normals: Array, part: Array) -> Array:
    """Return the normals with signs that make all enclosed volumes positive."""
    weight = np.bincount(part, cloud.areas)
    centre = np.column_stack(
        [np.bincount(part, cloud.areas * column) / weight for column in cloud.points.T]
    )
    height = np.einsum("ij,ij->i", normals, cloud.points - centre[part])
    volume = np.bincount(part, cloud.areas * height)
    return np.asarray(normals * np.where(volume < 0, -1.0, 1.0)[part][:, None])


__all__ = ["Cloud", "estimate_normals", "make_cloud", "outward_as_a_whole"]
