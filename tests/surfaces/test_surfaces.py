"""Surfaces against shapes that are known: sphere, torus, cube, two balls, a bowl."""

import pickle
import re
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from corevec import InvalidInputError, NotCertifiedWarning
from corevec.surfaces import (
    ImplicitSurface,
    Mesh,
    check_lattice_memory,
    estimate_normals,
    lattice_bytes,
    make_cloud,
    winding_numbers,
    zero_set,
)

pytest.importorskip("skimage")

CENTRE, RADIUS = np.array([1.0, 2.0, 3.0]), 2.0
BIG, SMALL = 1.0, 0.4  # radii of the torus


def sphere(n, centre=CENTRE, radius=RADIUS):
    """Return n evenly spread points: the Fibonacci lattice."""
    height = 1 - (2 * np.arange(n) + 1) / n
    angle = np.pi * (1 + np.sqrt(5)) * np.arange(n)
    ring = np.sqrt(1 - height**2)
    unit = np.column_stack([ring * np.cos(angle), ring * np.sin(angle), height])
    return centre + radius * unit


def torus(n, rng):
    u, v = 2 * np.pi * rng.random((2, n))
    ring = BIG + SMALL * np.cos(v)
    return np.column_stack([ring * np.cos(u), ring * np.sin(u), SMALL * np.sin(v)])


def torus_distance(points):
    ring = np.hypot(points[:, 0], points[:, 1]) - BIG
    return np.hypot(ring, points[:, 2]) - SMALL


def cube(per_side):
    """Return a lattice on the faces of [-1, 1]^3, edges left out."""
    side = (np.arange(per_side) + 0.5) / per_side * 2 - 1
    u, v = (part.ravel() for part in np.meshgrid(side, side))
    one = np.ones_like(u)
    faces = [
        np.roll(np.column_stack([s * one, u, v]), k, axis=1)
        for k in range(3)
        for s in (1, -1)
    ]
    return np.concatenate(faces)


def fitted(points, **parameters):
    return ImplicitSurface(random_state=0, **parameters).fit(points)


def edge_counts(mesh):
    """Return how many triangles each edge belongs to, and its two directions."""
    counts = {}
    for a, b, c in mesh.faces.tolist():
        for start, end in ((a, b), (b, c), (c, a)):
            key = (min(start, end), max(start, end))
            there, back = counts.get(key, (0, 0))
            counts[key] = (there + (start < end), back + (start > end))
    return counts


def euler_characteristic(mesh):
    return len(mesh.vertices) - len(edge_counts(mesh)) + len(mesh.faces)


def assert_closed(mesh):
    """Every edge is met by two triangles, once in each direction."""
    assert len(mesh.faces) > 0
    assert set(edge_counts(mesh).values()) == {(1, 1)}


def enclosed_volume(mesh):
    """Return the sum of the tetrahedra to the origin: positive if seen from outside."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


@pytest.fixture(scope="module")
def ball():
    return fitted(sphere(1200))


@pytest.fixture(scope="module")
def ball_mesh(ball):
    return ball.mesh(48)


@pytest.fixture(scope="module")
def ring():
    return fitted(torus(3000, np.random.default_rng(0)))


def test_the_distance_is_that_of_the_sphere(ball, rng):
    directions = rng.normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    heights = rng.uniform(-0.1, 0.1, 200)
    places = CENTRE + (RADIUS + heights)[:, None] * directions
    found = ball.distance(places)
    diagonal = 2 * RADIUS * np.sqrt(3)
    assert np.abs(found - heights).mean() < 0.003 * diagonal
    assert np.abs(found - heights).max() < 0.015 * diagonal


def test_the_field_is_negative_inside_and_positive_outside_however_far(ball, rng):
    directions = rng.normal(size=(300, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    inside = rng.uniform(0, 0.97, (300, 1)) * RADIUS
    outside = rng.uniform(1.03, 50, (300, 1)) * RADIUS
    assert (ball.decision(CENTRE + inside * directions) < 0).all()
    assert (ball.decision(CENTRE + outside * directions) > 0).all()


def test_the_field_is_zero_on_the_points_within_the_tube(ball):
    values = np.abs(ball.decision(ball.points_))
    # The shift to median 0 can add a tube; C leaves a little beyond it.
    assert values.max() < 2.2 * ball.tubes_[-1]


def test_the_mesh_of_a_sphere_is_a_closed_sphere(ball_mesh):
    assert_closed(ball_mesh)
    assert euler_characteristic(ball_mesh) == 2
    volume = 4 / 3 * np.pi * RADIUS**3
    assert enclosed_volume(ball_mesh) == pytest.approx(volume, rel=0.01)
    radii = np.linalg.norm(ball_mesh.vertices - CENTRE, axis=1)
    assert np.abs(radii - RADIUS).max() < 0.03


def test_a_mesh_knows_its_pieces_volume_and_boundary(ball_mesh):
    assert ball_mesh.n_components == 1
    assert ball_mesh.n_boundary_edges == 0
    assert ball_mesh.volume == pytest.approx(enclosed_volume(ball_mesh), rel=1e-9)
    opened = Mesh(ball_mesh.vertices, ball_mesh.faces[1:])
    assert opened.n_boundary_edges == 3


def test_the_mesh_of_a_torus_has_one_hole(ring):
    mesh = ring.mesh(64)
    assert_closed(mesh)
    assert euler_characteristic(mesh) == 0
    assert np.abs(torus_distance(mesh.vertices)).mean() < 0.003
    volume = 2 * np.pi**2 * BIG * SMALL**2
    assert enclosed_volume(mesh) == pytest.approx(volume, rel=0.02)


def test_the_mesh_of_a_cube_is_closed_and_keeps_its_faces():
    mesh = fitted(cube(16)).mesh(48)
    assert_closed(mesh)
    assert euler_characteristic(mesh) == 2
    off = np.abs(np.abs(mesh.vertices).max(axis=1) - 1)
    assert off.mean() < 0.02  # edges and corners, where no point lies, are rounded
    assert enclosed_volume(mesh) == pytest.approx(8, rel=0.03)


def test_two_balls_are_two_pieces_each_seen_from_outside():
    centres = np.array([[0.0, 0, 0], [3.0, 0, 0]])
    points = np.concatenate([sphere(500, centre, 1.0) for centre in centres])
    surface = fitted(points)
    mesh = surface.mesh(64)
    assert_closed(mesh)
    assert mesh.n_components == 2
    assert enclosed_volume(mesh) == pytest.approx(8 / 3 * np.pi, rel=0.03)
    assert (surface.decision([*centres, [1.5, 0, 0]]) * [-1, -1, 1] > 0).all()


def test_a_hole_in_the_scan_is_bridged():
    points = sphere(1200)
    points = points[points[:, 2] > CENTRE[2] - 0.8 * RADIUS]
    mesh = fitted(points).mesh(48)
    assert_closed(mesh)
    assert euler_characteristic(mesh) == 2
    assert mesh.vertices[:, 2].min() > CENTRE[2] - 1.5 * RADIUS


def on_the_torus(rng):
    return torus(2000, rng), torus_distance


def on_the_cube(rng):
    return cube(10), lambda places: np.abs(places).max(axis=1) - 1


def on_the_sphere(rng):
    return sphere(400), lambda x: np.linalg.norm(x - CENTRE, axis=1) - RADIUS


@pytest.mark.parametrize("shape", [on_the_sphere, on_the_torus, on_the_cube])
def test_estimated_normals_point_outward(shape, rng):
    points, height = shape(rng)
    normals = estimate_normals(make_cloud(points, 12))
    agreement = np.einsum("ij,ij->i", normals, outward(points, height))
    assert (agreement > 0).all()
    assert np.median(agreement) > 0.99  # beside the cube's edges it is 0.7


def outward(points, height):
    """Return the gradient of the true distance at each point."""
    steps = 1e-6 * np.eye(3)
    slopes = [(height(points + e) - height(points - e)) / 2e-6 for e in steps]
    return np.column_stack(slopes)


def test_winding_numbers_tell_inside_from_outside(rng):
    _, height = on_the_cube(rng)
    points = cube(20)
    places = rng.uniform(-2, 2, (400, 3))
    places = places[np.abs(height(places)) > 0.3]
    numbers = winding_numbers(make_cloud(points, 12), outward(points, height), places)
    assert np.abs(numbers - (height(places) < 0)).max() < 0.2


def test_given_normals_serve_as_well_and_may_all_point_inward(ball_mesh):
    points = sphere(1200)
    normals = 7.0 * (CENTRE - points)  # inward, and of no particular length
    surface = ImplicitSurface(random_state=0).fit(points, normals)
    radii = np.linalg.norm(surface.mesh(48).vertices - CENTRE, axis=1)
    assert np.abs(radii - RADIUS).max() < 0.03
    outward = np.einsum("ij,ij->i", surface.normals_, points - CENTRE) / RADIUS
    assert outward == pytest.approx(1, abs=1e-12)


def test_the_one_set_of_the_paper_passes_through_the_points():
    points = sphere(1200)
    surface = fitted(points, formulation="one-set")
    assert surface.normals_ is None
    assert np.abs(surface.distance(points)).max() < 0.02 * RADIUS
    mesh = surface.mesh(48)
    assert_closed(mesh)
    nearest = np.abs(np.linalg.norm(mesh.vertices - CENTRE, axis=1) - RADIUS)
    assert np.median(nearest) < 0.02 * RADIUS


def test_moving_and_scaling_the_points_moves_and_scales_the_surface(rng):
    # Multiples of 2^-10 moved by 2^20 and scaled by 4 are exact in float64, so the
    # surface has to be the same bit for bit; this is also the 1e6 + small object.
    points = np.round(sphere(400) * 1024) / 1024
    places = np.round(rng.uniform(-2, 6, (50, 3)) * 1024) / 1024
    here, there = fitted(points), fitted(4 * points + 2.0**20)
    assert (there.decision(4 * places + 2.0**20) == 4 * here.decision(places)).all()
    mesh, moved = here.mesh(24), there.mesh(24)
    assert (mesh.faces == moved.faces).all()
    assert np.abs(4 * mesh.vertices + 2.0**20 - moved.vertices).max() < 1e-8


def test_repeated_points_count_once(rng):
    points = sphere(300)
    places = rng.uniform(-2, 6, (20, 3))
    repeated = np.concatenate([points, points[::3], points[:50]])
    once, twice = fitted(points), fitted(repeated)
    assert len(twice.points_) == 300
    assert (once.decision(places) == twice.decision(places)).all()


def test_each_scale_has_its_certificate(ball):
    assert len(ball.estimators_) == len(ball.certificate_.parts) == 3
    assert ball.certificate_.converged
    worst = max(part.relative_gap for part in ball.certificate_.parts)
    assert ball.certificate_.relative_gap == worst <= ball.tol
    assert ball.n_support_ == sum(len(model.support_) for model in ball.estimators_)


def test_the_field_is_the_sum_of_the_scales_up_to_a_constant(ball, rng):
    places = CENTRE + rng.uniform(-3, 3, (50, 3))
    low, high = ball.points_.min(axis=0), ball.points_.max(axis=0)
    size = np.linalg.norm(high - low)
    unit = (places - (low + high) / 2) / size
    total = size * sum(model.predict(unit) for model in ball.estimators_)
    rest = ball.decision(places) - total
    assert rest == pytest.approx(size / 4, rel=0.01)  # a quarter of the diagonal
    assert np.ptp(rest) < 1e-9


def test_a_scale_that_stops_early_is_reported():
    with pytest.warns(
        NotCertifiedWarning, match=r"ImplicitSurface .*max_vectors.*tube"
    ):
        surface = fitted(sphere(600), max_vectors=50)
    assert not surface.certificate_.converged


def test_widths_and_tube_are_taken_in_the_units_of_the_points():
    surface = fitted(sphere(400), scales=2, widths=[2.0, 0.5], tube=0.02)
    assert surface.widths_ == pytest.approx([2.0, 0.5])
    assert surface.tubes_[-1] == pytest.approx(0.02)
    size = np.linalg.norm(np.ptp(surface.points_, axis=0))
    gammas = [model.gamma for model in surface.estimators_]
    assert gammas == pytest.approx([(size / 2.0) ** 2, (size / 0.5) ** 2])


@pytest.mark.parametrize("kernel", ["rbf", "inverse-distance"])
def test_other_kernels_of_the_distance_work_too(kernel):
    mesh = fitted(sphere(400), kernel=kernel).mesh(24)
    assert_closed(mesh)
    radii = np.linalg.norm(mesh.vertices - CENTRE, axis=1)
    assert np.abs(radii - RADIUS).max() < 0.1


def test_one_scale_suffices_for_a_sphere():
    assert_closed(fitted(sphere(400), scales=1).mesh(24))


def test_three_points_make_a_surface_of_some_kind():
    surface = fitted([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert np.isfinite(surface.decision([[0.2, 0.2, 0.1]])).all()
    surface.mesh(16)


def test_the_field_is_looked_at_near_the_surface_only():
    looked_at = []

    def field(places):
        looked_at.append(len(places))
        return np.linalg.norm(places, axis=1) - 0.7

    low = -np.ones(3)
    mesh = zero_set(field, low, -low, 128)
    assert_closed(mesh)
    assert sum(looked_at) < 0.15 * 129**3
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - 0.7).max() < 1e-3


@pytest.mark.parametrize("resolution", [32, 64, 100, 160])
def test_the_lattice_stays_within_the_memory_it_states(resolution):
    def field(places):
        return np.linalg.norm(places, axis=1) - 0.7

    low = -np.ones(3)
    zero_set(field, low, -low, 8)  # imports are not the lattice's
    tracemalloc.start()
    zero_set(field, low, -low, resolution)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < lattice_bytes(-2 * low, resolution)


def test_a_surface_that_leaves_the_box_is_closed_there():
    low = -np.ones(3)
    mesh = zero_set(lambda places: places[:, 2], low, -low, 32)
    assert_closed(mesh)
    assert euler_characteristic(mesh) == 2


def test_thin_sheets_are_found_at_any_lattice():
    def field(places):  # a plate of half a coarse cell, askew to the lattice
        normal = np.array([0.36, 0.48, 0.8])
        return np.maximum(
            np.abs(places @ normal) - 0.02, np.linalg.norm(places, axis=1) - 0.8
        )

    low = -np.ones(3)
    mesh = zero_set(field, low, -low, 192)
    assert_closed(mesh)
    assert mesh.n_components == 1


def test_pieces_away_from_the_points_are_dropped_unless_asked_for(ball_mesh, ball):
    stray = Mesh(
        np.concatenate([ball_mesh.vertices, ball_mesh.vertices / 9 + 30]),
        np.concatenate([ball_mesh.faces, ball_mesh.faces + len(ball_mesh.vertices)]),
    )
    kept = stray.near(ball.points_, least_share=0.001)
    assert (kept.vertices == ball_mesh.vertices).all()
    assert (kept.faces == ball_mesh.faces).all()


def test_ply_is_read_back_as_written(ball_mesh, tmp_path):
    ball_mesh.save(tmp_path / "ball.ply")
    header, _, body = (tmp_path / "ball.ply").read_bytes().partition(b"end_header\n")
    assert header.startswith(b"ply\nformat binary_little_endian 1.0\n")
    n_vertices = int(re.search(rb"element vertex (\d+)", header)[1])
    n_faces = int(re.search(rb"element face (\d+)", header)[1])
    vertices = np.frombuffer(body, "<f8", 3 * n_vertices).reshape(-1, 3)
    faces = np.frombuffer(body[24 * n_vertices :], np.uint8).reshape(n_faces, 13)
    assert (faces[:, 0] == 3).all()
    assert (vertices == ball_mesh.vertices).all()
    assert (faces[:, 1:].copy().view("<i4") == ball_mesh.faces).all()


def test_obj_is_read_back_as_written(ball_mesh, tmp_path):
    ball_mesh.save(str(tmp_path / "ball.OBJ"))
    lines = [line.split() for line in (tmp_path / "ball.OBJ").read_text().splitlines()]
    vertices = np.array([line[1:] for line in lines if line[0] == "v"], float)
    faces = np.array([line[1:] for line in lines if line[0] == "f"], int)
    assert vertices == pytest.approx(ball_mesh.vertices, rel=1e-8)
    assert (faces - 1 == ball_mesh.faces).all()


def test_stl_is_read_back_as_written(ball_mesh, tmp_path):
    ball_mesh.save(tmp_path / "ball.stl")
    content = (tmp_path / "ball.stl").read_bytes()
    assert int.from_bytes(content[80:84], "little") == len(ball_mesh.faces)
    records = np.frombuffer(content[84:], np.uint8).reshape(-1, 50)
    numbers = records[:, :48].copy().view("<f4").reshape(-1, 4, 3)
    corners = ball_mesh.vertices[ball_mesh.faces]
    assert numbers[:, 1:] == pytest.approx(corners, abs=1e-5)
    outward = np.einsum("ij,ij->i", numbers[:, 0], corners.mean(axis=1) - CENTRE)
    assert (outward > 0).all()


def test_an_unknown_suffix_is_refused(ball_mesh, tmp_path):
    with pytest.raises(InvalidInputError, match=r"'.xyz'.*\.ply, \.obj, \.stl"):
        ball_mesh.save(tmp_path / "ball.xyz")


def test_a_resolution_beyond_the_memory_names_one_that_fits(ball):
    surface = pickle.loads(pickle.dumps(ball)).set_params(memory_budget=2**21)
    with pytest.raises(InvalidInputError, match=r"resolution=300 .* bytes") as caught:
        surface.mesh(300)
    fits = int(re.search(r"resolution=(\d+) fits", str(caught.value))[1])
    assert_closed(surface.mesh(fits))
    with pytest.raises(InvalidInputError, match="fits"):
        surface.mesh(fits + 8)  # sides are rounded to a multiple of the coarse cells


LINE = np.arange(10.0)[:, None] * [1.0, 2.0, 3.0] + 1e6


@pytest.mark.parametrize(
    ("points", "text"),
    [
        (np.eye(3)[:2], "2 points were given, 2 of them distinct"),
        (np.zeros((5, 3)), "5 points were given, 1 of them distinct"),
        (np.empty((0, 3)), "0 points"),
        (LINE, "10 distinct points lie on one line"),
        (np.ones((5, 2)), r"shape \(5, 2\)"),
        (np.full((5, 3), np.nan), "NaN"),
        (np.full((5, 3), np.inf), "infinity"),
        (np.arange(5.0), "2D"),
    ],
)
def test_points_that_make_no_surface_are_refused(points, text):
    with pytest.raises(InvalidInputError, match=f"(?s)ImplicitSurface.*{text}"):
        ImplicitSurface().fit(points)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda normals: normals[:-1], r"\(49, 3\).*50 points"),
        (lambda normals: normals * (np.arange(50) != 7)[:, None], r"normals\[7\].*0"),
        (lambda normals: normals * np.nan, "NaN"),
        (lambda normals: normals[:, :2], r"\(50, 2\)"),
    ],
)
def test_normals_that_are_none_are_refused(spoil, text):
    points = sphere(50)
    with pytest.raises(InvalidInputError, match=f"(?s)ImplicitSurface.*{text}"):
        ImplicitSurface().fit(points, spoil(points - CENTRE))


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"kernel": "linear"}, "kernel='linear'.*'laplacian'"),
        ({"formulation": "two-set"}, "formulation='two-set'"),
        ({"scales": 0}, "scales=0"),
        ({"scales": 2.5}, "scales=2.5"),
        ({"widths": [1.0, 2.0, 3.0]}, "widths=.*smaller"),
        ({"widths": [1.0]}, "widths=.*3 positive"),
        ({"tube": -1.0}, "tube=-1"),
        ({"C": 0.0}, "C=0"),
        ({"neighbors": 2}, "neighbors=2"),
        ({"tol": 0.0}, "tol=0"),
        ({"memory_budget": -1}, "memory_budget=-1"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters, text):
    with pytest.raises(InvalidInputError, match=f"ImplicitSurface: .*{text}"):
        ImplicitSurface(**parameters).fit(sphere(50))


@pytest.mark.parametrize("resolution", [0, 1, 12.5, None])
def test_a_resolution_is_a_whole_number(ball, resolution):
    with pytest.raises(InvalidInputError, match=f"resolution={resolution}"):
        ball.mesh(resolution)


def test_an_unknown_choice_of_pieces_is_refused(ball):
    with pytest.raises(InvalidInputError, match="keep='largest'"):
        ball.mesh(16, keep="largest")


def test_places_are_checked_as_points_are(ball):
    with pytest.raises(InvalidInputError, match="NaN"):
        ball.decision([[0, 0, np.nan]])
    with pytest.raises(InvalidInputError, match=r"\(1, 2\)"):
        ball.distance([[0, 0]])


def test_a_surface_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        ImplicitSurface().decision(sphere(5))
    with pytest.raises(NotFittedError):
        ImplicitSurface().mesh()


def test_a_surface_survives_cloning_and_pickling(ball, rng):
    places = rng.uniform(-2, 6, (20, 3))
    again = pickle.loads(pickle.dumps(ball))
    assert (again.decision(places) == ball.decision(places)).all()
    assert clone(ball).get_params() == ball.get_params()


def test_every_parameter_is_described():
    for name in ImplicitSurface().get_params():
        assert re.search(rf"\b{name}\b.* : |\b{name},", ImplicitSurface.__doc__), name


def test_a_picture_shows_the_mesh(ball, ball_mesh):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    axes = ball.plot(ball_mesh)
    shown = axes.collections[0].get_facecolor()
    assert shown.shape == (len(ball_mesh.faces), 4)
    assert np.ptp(shown[:, 0]) > 0.2  # shaded
    assert ball.plot(ball_mesh, ax=axes) is axes
    pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("skimage", lambda surface: surface.mesh(8), "surface"),
        ("matplotlib", lambda surface: surface.plot(Mesh(CENTRE, CENTRE)), "plot"),
    ],
)
def test_a_missing_library_is_named(ball, monkeypatch, module, use, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'pip install "corevec\[{extra}\]"'):
        use(ball)


@pytest.mark.parametrize("resolution", [2_100_000, 10**7])
def test_a_lattice_beyond_64_bits_is_refused(resolution):
    with pytest.raises(InvalidInputError, match=r"resolution=\d{2,3} fits"):
        check_lattice_memory(np.ones(3), resolution, 2**28)
    with pytest.raises(InvalidInputError, match="Raise memory_budget"):
        check_lattice_memory(np.ones(3), resolution, 1000)
