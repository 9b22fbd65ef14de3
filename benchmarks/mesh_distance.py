"""The exact distance of points to a triangle mesh, without sampling the mesh."""

import numpy as np
from scipy.spatial import cKDTree

FIRST_CANDIDATES = 8


def distances(points, mesh):
    """Return the distance of each point to the nearest triangle.

    The nearest triangle is looked for among the nearest centroids. No triangle whose
    centroid is farther than the distance found plus the largest triangle's radius can
    be nearer, so the candidates are doubled until that holds.
    """
    corners = mesh.vertices[mesh.faces]
    centroids = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centroids[:, None], axis=2).max()
    tree = cKDTree(centroids)
    best = np.full(len(points), np.inf)
    open_rows, k = np.arange(len(points)), FIRST_CANDIDATES
    while len(open_rows):
        k = min(k, len(centroids))
        far, near = tree.query(points[open_rows], k)
        for column in range(k):
            found = to_triangles(points[open_rows], corners[near[:, column]])
            best[open_rows] = np.minimum(best[open_rows], found)
        done = (far[:, -1] >= best[open_rows] + radius) | (k == len(centroids))
        open_rows, k = open_rows[~done], 2 * k
    return best


def to_triangles(points, corners):
    """Return the distance of each point to its triangle; twin rows."""
    edges = [_to_segments(points, corners[:, i], corners[:, i - 1]) for i in range(3)]
    a, b, c = (corners[:, i] for i in range(3))
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    normals /= np.where(lengths > 0, lengths, 1)[:, None]
    above = np.ones(len(points), dtype=bool)
    for start, end in ((a, b), (b, c), (c, a)):
        inward = np.cross(normals, end - start)
        above &= np.einsum("ij,ij->i", inward, points - start) >= 0
    height = np.abs(np.einsum("ij,ij->i", normals, points - a))
    return np.where(above & (lengths > 0), height, np.min(edges, axis=0))


def _to_segments(points, start, end):
    way = end - start
    square = np.einsum("ij,ij->i", way, way)
    share = np.einsum("ij,ij->i", points - start, way) / np.where(square > 0, square, 1)
    foot = start + np.clip(share, 0, 1)[:, None] * way
    return np.linalg.norm(points - foot, axis=1)
