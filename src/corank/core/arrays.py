"""The few array operations that the array API standard lacks, work in threads, and digests of
arrays.

The only place with code per backend. Everything else is written against the namespace that
`namespace(x)` returns: NumPy, torch on any device, or any other array API library.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import chain, islice, pairwise
from threading import Lock, get_ident
from typing import Any, TypeAlias, TypeVar

import array_api_compat
import array_api_compat.numpy
import numpy as np
import scipy.linalg
from scipy import sparse
from threadpoolctl import ThreadpoolController

Array: TypeAlias = Any  # of any array API library; a CSR matrix where the docstring says so
Index: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
FloatArray: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
NumpyArray: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, NumpyArray]
Job = TypeVar("Job")
Result = TypeVar("Result")

NOT_PSD = (
    "kernel is not positive semi-definite on these rows, so it is not a valid kernel: its matrix"
    " has negative eigenvalues; use another one."
)
MAX_GPU_ENTRIES = 2**28  # of one block on a GPU
GPU_BLOCKS = 6  # blocks that must fit into the memory of a GPU at once
GPU_TILE_COLUMNS = 384  # of a tile of a symmetric product
MIN_TILE_COLUMNS = 96  # of a tile on a CPU: smaller products run below its rate
# rows of a block begin at multiples of that many numbers, where a GPU reads fastest
GPU_ROW_ENTRIES = 64
MIN_LOOPED_ENTRIES = 2**13  # of a run of rows, on average, from which a loop over runs is fastest
# of a sum over segments up to which a dense matrix takes less time than a sparse one
MAX_DENSE_PRODUCTS = 2**19
SUBTRACTED_ENTRIES = 2**17  # of a matrix that are worked on at once: they stay in the cache
# rows of a matrix that is factorised in one thread: a second would gain little and may have to
# wait, as threads of NumPy's BLAS stay busy while SciPy's want the cores
MAX_ALONE = 1_000
# of a block of a matrix that is mirrored: the block and its image stay in the cache
MIRROR_ROWS = 256
MAX_NEGATIVE_EIGENVALUE = 1e-6  # relative to the kernel values: more than rounding can explain


def digest(*values: Any) -> str:
    """SHA-256 of arrays and CSR matrices (type, shape and numbers, from any device) and of the
    texts of other values.
    """
    result = hashlib.sha256()
    for value in values:
        if is_sparse(value):
            arrays = [value.data, value.indices, value.indptr]
        elif array_api_compat.is_array_api_obj(value):
            arrays = [to_numpy(value), *([np.ma.getmaskarray(value)] if is_masked(value) else [])]
        else:
            arrays = []
            result.update(repr(value).encode())
        for array in arrays:
            result.update(f"{array.dtype} {array.shape}".encode())
            result.update(np.ascontiguousarray(array).tobytes())
    return result.hexdigest()


def is_sparse(x: Any) -> bool:
    """Whether `x` is a SciPy sparse matrix or array."""
    return bool(sparse.issparse(x))


def is_foreign(x: Any) -> bool:
    """Whether `x` is an array of a library other than NumPy (torch, array-api-strict, …)."""
    return (
        bool(array_api_compat.is_array_api_obj(x))
        and not array_api_compat.is_numpy_array(x)
        and not is_sparse(x)
    )


def is_masked(x: Any) -> bool:
    """Whether entries of a NumPy masked array are masked, or of such arrays in a list."""
    if isinstance(x, list | tuple):
        return any(isinstance(entry, np.ma.MaskedArray) and is_masked(entry) for entry in x)
    return isinstance(x, np.ma.MaskedArray) and bool(np.any(np.ma.getmaskarray(x)))


def masked_as_nan(x: Any) -> Any:
    """`x` with NaN for its masked entries, which as integers and texts cannot be NaN; as it is
    where none is masked.
    """
    if not is_masked(x):
        return x
    given = x
    if not isinstance(x, np.ma.MaskedArray):
        masks = [np.ma.getmaskarray(entry) for entry in x]
        given = np.ma.array([np.ma.getdata(entry) for entry in x], mask=masks)
    is_number = given.dtype.kind in "biufc"
    dtype = np.result_type(given.dtype, np.float64) if is_number else object
    values = np.full(given.shape, np.nan, dtype=dtype)
    values[~np.ma.getmaskarray(given)] = given.compressed()
    return values


def namespace(x: Any) -> Any:
    """The array API namespace that computes with `x`; NumPy's for CSR."""
    if isinstance(x, np.ndarray) or is_sparse(x):
        return array_api_compat.numpy
    return array_api_compat.array_namespace(x)


def device(x: Any) -> Any:
    """The device of `x`, None for CSR."""
    return None if is_sparse(x) else array_api_compat.device(x)


def to_numpy(x: Any) -> NumpyArray:
    """`x` as a NumPy array, from any device."""
    if array_api_compat.is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    if hasattr(x, "__array_namespace__") and not isinstance(x, np.ndarray | np.generic):
        return np.from_dlpack(x)
    return np.asarray(x)


def like(values: Any, reference: Array, dtype: str = "float64") -> Array:
    """`values` as an array of the same library and device as `reference`; objects as they are."""
    if dtype == "object":
        return values
    xp = namespace(reference)
    if not array_api_compat.is_array_api_obj(values) or namespace(values) is not xp:
        values = np.asarray(to_numpy(values), dtype=dtype)
    return xp.asarray(values, dtype=getattr(xp, dtype), device=device(reference))


def dtype_name(x: Array) -> str:
    """The name that `like` understands: "float32", "float64", "int64"."""
    return str(x.dtype).rpartition(".")[2]


def zeros_beside(shape: int | tuple[int, ...], reference: Array) -> Array:
    """float64 zeros in the library and on the device of a reference."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=xp.float64, device=device(reference))


def sum_of(arrays: Sequence[Array]) -> Array:
    """The sum of one array or more, from the first to the last."""
    return sum(arrays[1:], arrays[0])


def with_precision_of(features: Array, values: Array) -> Array:
    """Values with the precision of features, where these are numbers."""
    if features.dtype == object:
        return values
    precision = features.dtype if is_foreign(features) else features.dtype.type
    return namespace(values).astype(values, precision, copy=False)


def runs_of_rows(n: int, length: int) -> list[slice]:
    """The rows 0 to n in runs of a length, the last one shorter."""
    return [slice(begin, min(begin + length, n)) for begin in range(0, n, length)]


def run_starts(values: NumpyArray) -> Index:
    """The first positions of the runs of equal values (n,), n > 0."""
    return np.flatnonzero(np.r_[True, values[1:] != values[:-1]])


def is_rising(values: NumpyArray) -> bool:
    """Whether no value (n,) is smaller than the one before it."""
    return bool(np.all(values[1:] >= values[:-1]))


def take(x: Array, rows: Any) -> Array:
    """Rows `x[rows]`, of an array, a CSR matrix or anything with `take_rows`; a slice gives a view
    where it can.

    None where `x` is None.
    """
    if x is None:
        return None
    if hasattr(x, "take_rows"):
        return x.take_rows(rows)
    if isinstance(x, np.ndarray) or is_sparse(x):
        return x[rows if isinstance(rows, slice) else to_numpy(rows)]
    if isinstance(rows, slice):
        return x[rows, ...]
    return namespace(x).take(x, like(rows, x, "int64"), axis=0)


def stack_rows(blocks: list[Array]) -> Array:
    """The rows of several arrays below each other; CSR where the blocks are CSR."""
    if len(blocks) == 1:
        return blocks[0]
    if is_sparse(blocks[0]):
        return sparse.vstack(blocks, format="csr")
    return namespace(blocks[0]).concat(blocks, axis=0)


def refuse_masked(values: Any, name: str, act: str) -> None:
    """Refuse masked entries, whose numbers count for nothing; `act`: what to do about them."""
    if not is_masked(values):
        return
    if isinstance(values, np.ma.MaskedArray):
        first = [int(numbers[0]) for numbers in np.nonzero(np.ma.getmaskarray(values))]
    else:
        first = [next(row for row, entry in enumerate(values) if is_masked(entry))]
    where = ", ".join(map("{} {}".format, ("row", "column"), first))
    raise ValueError(f"{name} has masked entries, first in {where}; {act}.")


def take_columns(x: Array, columns: Any) -> Array:
    """Columns `x[:, columns]` of an array."""
    return namespace(x).take(x, like(columns, x, "int64"), axis=1)


def block_of(matrix: Array, rows: Any, columns: Any) -> Array:
    """The given rows and columns of a matrix."""
    return take_columns(take(matrix, rows), columns)


def float64(x: Array) -> Array:
    """`x` with float64 entries; dense where dense, CSR where CSR."""
    if is_sparse(x):
        return x if x.dtype == np.float64 else x.astype(np.float64)
    xp = namespace(x)
    try:
        return xp.astype(x, xp.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error}: objects need a kernel function of two lists of them.") from None


def segment_sum(
    values: Array, segments: Array, n_segments: int, weights: Array | None = None
) -> Array:
    """Sum the rows of `values` (n, c) that share a segment number, weighted (n,) or not:
    (n_segments, c).
    """
    if isinstance(values, np.ndarray):
        n = values.shape[0]
        if values.shape[1] == 1:  # a sparse matrix takes longer to make than to multiply with
            column = values[:, 0] if weights is None else values[:, 0] * weights
            return np.bincount(segments, column, minlength=n_segments)[:, None]
        data = np.ones(n) if weights is None else weights
        if n_segments * values.size <= MAX_DENSE_PRODUCTS:
            members = np.zeros((n_segments, n))
            members[segments, np.arange(n)] = data
            return members @ values
        indicator = sparse.csr_array(
            (data, np.asarray(segments), np.arange(n + 1)), shape=(n, n_segments)
        )
        return np.asarray(indicator.T.tocsr() @ values)
    xp = namespace(values)
    if weights is not None:
        values = weights[:, None] * values
    if array_api_compat.is_torch_array(values):
        sums = values.new_zeros((n_segments, values.shape[1]))
        return sums.index_add_(0, segments, values)
    members = segments[None, :] == xp.arange(n_segments, device=device(values))[:, None]
    return xp.astype(members, values.dtype) @ values


def solve_positive(matrix: Array, right: Array) -> Array:
    """Solve a symmetric positive definite system by Cholesky; ValueError where it is not. O(k³/3).

    `matrix` (k, k) may be overwritten.
    """
    xp = namespace(matrix)
    if array_api_compat.is_numpy_array(matrix):
        try:
            with in_one_thread(matrix, wanted=matrix.shape[0] <= MAX_ALONE):
                factor = scipy.linalg.cho_factor(
                    matrix, lower=True, overwrite_a=True, check_finite=False
                )
                return scipy.linalg.cho_solve(factor, right, check_finite=False)
        except scipy.linalg.LinAlgError as error:
            raise ValueError("matrix is not positive definite") from error
    lower = cholesky(matrix)
    if array_api_compat.is_torch_array(matrix):
        return xp.cholesky_solve(right, lower)
    return xp.linalg.solve(matrix, right)


def inverse_positive(matrix: Array) -> Array:
    """The inverse of a symmetric positive definite matrix (k, k), which may be overwritten;
    ValueError for others.

    O(k³): a third for the Cholesky factor, the rest for the inverse.
    """
    if not array_api_compat.is_numpy_array(matrix):
        factor = cholesky(matrix)
        if array_api_compat.is_torch_array(matrix):
            return namespace(matrix).cholesky_inverse(factor)
        return namespace(matrix).linalg.inv(matrix)
    lower, failed = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise ValueError("matrix is not positive definite")
    upper = scipy.linalg.lapack.dpotri(lower, lower=1, overwrite_c=1)[0].T
    result = np.ascontiguousarray(upper)
    k = len(result)
    for begin in range(0, k, MIRROR_ROWS):
        end = min(begin + MIRROR_ROWS, k)
        block = result[begin:end, begin:end]
        block[...] = np.triu(block) + np.triu(block, 1).T
        result[end:, begin:end] = result[begin:end, end:].T
    return result


def cholesky(matrix: Array) -> Array:
    """Lower Cholesky factor (k, k); raises ValueError when the matrix is not positive definite."""
    xp = namespace(matrix)
    try:
        with in_one_thread(matrix, wanted=matrix.shape[0] <= MAX_ALONE):
            return xp.linalg.cholesky(matrix)
    except Exception as error:  # every library has an exception of its own
        raise ValueError("matrix is not positive definite") from error


def solve_lower(factor: Array, right: Array) -> Array:
    """Solve L x = right with L (k, k) lower triangular, right (k, c)."""
    xp = namespace(factor)
    if array_api_compat.is_numpy_array(factor):
        if right.size == 0:
            return np.array(right)
        # solve_triangular takes twice as long
        return scipy.linalg.blas.dtrsm(1.0, factor, right, lower=1)
    if array_api_compat.is_torch_array(factor):
        return xp.linalg.solve_triangular(factor, right, upper=False)
    return xp.linalg.solve(factor, right)


def solve_lower_of_many(factor: Array, right: Array) -> Array:
    """Solve L x = right with L (k, k) lower triangular and far from singular, right (k, c): by L⁻¹,
    faster for many c.

    All by NumPy: SciPy has a BLAS of its own, whose threads would have to wait for those of NumPy's
    to give up the cores.
    """
    k, c = right.shape
    if not isinstance(factor, np.ndarray) or c < 8 * k or right.size == 0:
        return solve_lower(factor, right)
    inverse = np.linalg.inv(factor)
    solution = np.empty((c, k))
    for part in runs_of_rows(k, max(MIN_TILE_COLUMNS, -(-k // 4))):
        np.matmul(right[: part.stop].T, inverse[part, : part.stop].T, out=solution[:, part])
    return solution.T


def solve_upper(factor: Array, right: Array) -> Array:
    """Solve R x = right with R (k, k) upper triangular, right (k, c)."""
    xp = namespace(factor)
    if isinstance(factor, np.ndarray):
        return scipy.linalg.solve_triangular(factor, right, lower=False, check_finite=False)
    if array_api_compat.is_torch_array(factor):
        return xp.linalg.solve_triangular(factor, right, upper=True)
    return xp.linalg.solve(factor, right)


def solve_factored(factor: Array, right: Array) -> Array:
    """(L Lᵀ)⁻¹ right."""
    return solve_upper(factor.T, solve_lower(factor, right))


def triangle(matrix: Array) -> Array:
    """R (min(n, k), k) of the QR decomposition of a matrix (n, k), without Q. O(n k²).

    The entries below its diagonal are not 0: callers must not read them.
    """
    if isinstance(matrix, np.ndarray):
        if matrix.size == 0:
            return matrix[: matrix.shape[1]]
        work = int(scipy.linalg.lapack.dgeqrf_lwork(*matrix.shape)[0])
        return scipy.linalg.lapack.dgeqrf(matrix, lwork=work)[0][: matrix.shape[1]]
    if array_api_compat.is_torch_array(matrix):
        return namespace(matrix).linalg.qr(matrix, mode="r")[1]
    return namespace(matrix).linalg.qr(matrix)[1]


def eigh(matrix: Array, size: float | None = None) -> tuple[Array, Array]:
    """Eigenvalues in ascending order, clipped at 0, and eigenvectors of a symmetric positive
    semi-definite matrix.

    With `size`, the size of kernel values, negative eigenvalues that no rounding explains are a
    ValueError.
    """
    xp = namespace(matrix)
    with in_one_thread(matrix, wanted=matrix.shape[0] <= MAX_ALONE):
        values, vectors = xp.linalg.eigh(matrix)
    if size is not None:
        largest = max(size, float(xp.max(xp.abs(values))))
        if float(values[0]) < -MAX_NEGATIVE_EIGENVALUE * largest:
            raise ValueError(NOT_PSD)
    return at_least_zero(values), vectors


def at_least_zero(values: Array) -> Array:
    """Values, and 0 in place of those below it."""
    xp = namespace(values)
    return xp.where(values > 0, values, xp.zeros_like(values))


def inverse_where(live: Array, values: Array) -> Array:
    """1 / values where they are `live`, 0 elsewhere."""
    xp = namespace(values)
    inverse = 1 / xp.where(live, values, xp.ones_like(values))
    return xp.where(live, inverse, xp.zeros_like(values))


def symmetrised(matrix: Array) -> Array:
    """(A + Aᵀ)/2: symmetric again where rounding was not."""
    return (matrix + namespace(matrix).matrix_transpose(matrix)) / 2


def add_diagonal(matrix: Array, value: Array | float) -> Array:
    """A + value·I as a new array, for one value or one per row (k,)."""
    if isinstance(matrix, np.ndarray):
        result = matrix.copy()
        result.flat[:: matrix.shape[0] + 1] += value
        return result
    xp = namespace(matrix)
    return matrix + value * xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))


def padded(blocks: Sequence[Array]) -> list[Array]:
    """The rows of every block, its columns among those of all blocks, zeros elsewhere."""
    if len(blocks) == 1:
        return list(blocks)
    widths = [block.shape[1] for block in blocks]
    rows = []
    for position, block in enumerate(blocks):
        left, right = (
            zeros_beside((block.shape[0], sum(others)), block)
            for others in (widths[:position], widths[position + 1 :])
        )
        rows.append(namespace(block).concat([left, block, right], axis=1))
    return rows


def block_diagonal(blocks: Sequence[Array]) -> Array:
    """The blocks on the diagonal, zeros elsewhere."""
    return blocks[0] if len(blocks) == 1 else stack_rows(padded(blocks))


def kron(left: FloatArray, right: Array) -> Array:
    """The Kronecker product of a small matrix with a large one."""
    xp = namespace(right)
    return xp.concat(
        [xp.concat([float(entry) * right for entry in row], axis=1) for row in left], axis=0
    )


def first_appearance(values: Array) -> tuple[Array, int]:
    """Number the distinct values of a 1-d array 0, 1, … in order of first appearance: codes (n,),
    count.
    """
    xp = namespace(values)
    if values.shape[0] == 0:
        return xp.zeros(0, dtype=xp.int64, device=device(values)), 0
    if array_api_compat.is_numpy_array(values):
        if values.dtype.kind in "iuf" and is_rising(values):  # nothing to sort
            codes = np.zeros(len(values), dtype=np.int64)
            np.cumsum(values[1:] != values[:-1], out=codes[1:])
            return codes, int(codes[-1]) + 1
        _, first, codes = np.unique(values, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        return rank[codes.reshape(-1)], len(first)
    distinct, codes = xp.unique_inverse(values)
    # the smallest row of each value: sort codes, ties keep the row order
    order = xp.argsort(codes, stable=True)
    ordered = xp.take(codes, order)
    first = xp.ones(1, dtype=xp.bool, device=device(values))
    starts = xp.concat([first, ordered[1:] != ordered[:-1]])
    rank = xp.argsort(xp.argsort(order[starts]))
    return xp.take(xp.astype(rank, xp.int64), codes), distinct.shape[0]


@cache
def _thread_pools() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds."""
    return ThreadpoolController()


# for every block in which BLAS has one thread: the limit holds for the whole process, to the last end
_limits: list[Any] = []
_limiting = Lock()
_for_jobs: dict[int, int] = {}  # threads that BLAS gave up for the jobs of a thread, one at most


@contextmanager
def in_one_thread(
    reference: Array, *, wanted: bool = True, with_jobs: bool = False
) -> Iterator[int]:
    """BLAS on one thread inside the block: many small products wait longer for a second thread than
    they take. The number of threads that it had, 1 where there is nothing to limit.

    with_jobs : whether `in_order` takes as many threads inside the block
    """
    if not wanted or not isinstance(reference, np.ndarray):
        yield 1
        return
    threads = 1
    with _limiting:
        is_first = not _limits
        if is_first:
            pools = [pool for pool in _thread_pools().info() if pool["user_api"] == "blas"]
            threads = max([1, *(pool["num_threads"] for pool in pools)])
        if is_first and with_jobs:
            _for_jobs[get_ident()] = threads
        limit = _thread_pools().limit(limits=1, user_api="blas") if is_first else _limits[0]
        _limits.append(limit)
    try:
        yield threads
    finally:
        with _limiting:
            _limits.pop()
            if is_first:
                _for_jobs.clear()
            if not _limits:
                limit.restore_original_limits()


def in_order(
    step: Callable[[Job], Result], jobs: Iterable[Job], reference: Array
) -> Iterator[Result]:
    """The results of `step` for every job, in the order of the jobs.

    NumPy: as many threads as BLAS may use, each with BLAS on one thread; only a few results wait at
    a time, and sums of them do not depend on the number of threads. Other libraries, and callers
    that come while another one has the threads: one after the other.
    """
    jobs = iter(jobs)
    first = list(islice(jobs, 2))
    jobs = chain(first, jobs)
    if not array_api_compat.is_numpy_array(reference) or len(first) < 2:
        yield from map(step, jobs)
    elif get_ident() in _for_jobs:
        yield from _in_threads(step, jobs, _for_jobs[get_ident()])
    else:
        with in_one_thread(reference) as threads:
            yield from _in_threads(step, jobs, threads)


def _in_threads(
    step: Callable[[Job], Result], jobs: Iterable[Job], workers: int
) -> Iterator[Result]:
    if workers == 1:
        yield from map(step, jobs)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(step, job))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def centre_runs(z: Array, starts: NumpyArray, weights: Array | None) -> tuple[Array, Array, Array]:
    """Take the weighted mean of every run of rows out of z (n, c), in place where the library is
    NumPy.

    starts (k,) : the first rows of the runs; weights (n,), None for ones
    Returns the centred z, the total weights of the runs (k,) and their means (k, c).
    """
    xp = namespace(z)
    n, k = z.shape[0], len(starts)
    bounds = np.append(starts, n)
    lengths = np.diff(bounds)
    looped = n * z.shape[1] >= MIN_LOOPED_ENTRIES * k
    if isinstance(z, np.ndarray) and weights is None and (looped or np.all(lengths == lengths[0])):
        means = np.empty((k, z.shape[1]))
        if looped:
            for run, (begin, end) in enumerate(pairwise(bounds)):
                block = z[begin:end]
                np.divide(block.sum(axis=0), end - begin, out=means[run])
                block -= means[run]
        else:
            cube = z.reshape(k, int(lengths[0]), z.shape[1])
            np.divide(cube.sum(axis=1), lengths[0], out=means)
            cube -= means[:, None, :]
        return z, lengths.astype(np.float64), means
    if writable(z) and weights is None and not isinstance(z, np.ndarray):
        return z, like(lengths, z), _centre_tensor(z, lengths)
    codes = like(np.repeat(np.arange(k), lengths), z, "int64")
    totals = like(lengths, z) if weights is None else segment_sum(weights[:, None], codes, k)[:, 0]
    means = segment_sum(z, codes, k, weights) / totals[:, None]
    if isinstance(z, np.ndarray):
        z -= means[codes]
    else:
        z = z - xp.take(means, codes, axis=0)
    return z, totals, means


def _centre_tensor(z: Array, lengths: NumpyArray) -> Array:
    """Take the mean of every run out of a tensor (n, c), in place; returns the means (k, c)."""
    k, c = len(lengths), z.shape[1]
    if np.all(lengths == lengths[0]):
        cube = z.view(k, int(lengths[0]), c)
        means = cube.mean(dim=1)
        cube -= means[:, None, :]
        return means
    sizes = like(lengths, z, "int64")
    means = _torch(z).segment_reduce(z, "mean", lengths=sizes, axis=0)
    z -= means.repeat_interleave(sizes, dim=0, output_size=z.shape[0])
    return means


def writable(x: Any) -> bool:
    """Whether arrays of this library can be written in place: NumPy and torch."""
    return isinstance(x, np.ndarray) or bool(array_api_compat.is_torch_array(x))


def empty_like(shape: tuple[int, int], reference: Array) -> Array:
    """An uninitialised float64 array in the library and on the device of a writable reference."""
    if isinstance(reference, np.ndarray):
        return np.empty(shape)
    width = -(-shape[1] // GPU_ROW_ENTRIES) * GPU_ROW_ENTRIES if on_gpu(reference) else shape[1]
    return reference.new_empty((shape[0], width), dtype=namespace(reference).float64)[:, : shape[1]]


def block_entries(reference: Array, usual: int) -> int:
    """Numbers per block: `usual` in main memory, as many as its memory allows on a GPU."""
    if not on_gpu(reference):
        return usual
    free, _ = _torch(reference).cuda.mem_get_info(reference.device)
    return max(usual, min(MAX_GPU_ENTRIES, int(free) // 8 // GPU_BLOCKS))


def check_device(device: Any) -> None:
    """Refuse a device that PyTorch cannot compute on, and name those it finds."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise ValueError(
            f"device={device!r} needs PyTorch, which is not installed: pip install corank[torch]."
        ) from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        devices = [
            torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())
        ] or ["no GPU"]
        raise ValueError(
            f"device={device!r} cannot be used: PyTorch {torch.__version__} finds"
            f" {', '.join(devices)} here."
        ) from error


def forget(reference: Array) -> None:
    """Give back the memory that PyTorch keeps for later on a GPU."""
    if on_gpu(reference):
        _torch(reference).cuda.empty_cache()


def on_gpu(x: Any) -> bool:
    """Whether an array lies on a CUDA device."""
    return bool(array_api_compat.is_torch_array(x)) and x.is_cuda


def _torch(x: Any) -> Any:
    """The module that a tensor comes from."""
    return sys.modules[type(x).__module__.partition(".")[0]]


def write_product(left: Array, right: Array, out: Array) -> None:
    """left @ right into a writable array whose rows may lie apart."""
    (np if isinstance(out, np.ndarray) else _torch(out)).matmul(left, right, out=out)


def gram_of(z: Array) -> Array:
    """zᵀ z: (c, c). NumPy uses its symmetry; on a GPU it is put together from tiles on and above
    the diagonal.
    """
    return symmetric_product(z, z) if on_gpu(z) and z.shape[1] >= 2 * GPU_TILE_COLUMNS else z.T @ z


def symmetric_product(x: Array, z: Array) -> Array:
    """xᵀ z: (c, c), known to be symmetric; put together from tiles on and above the diagonal where
    it can be.
    """
    c = z.shape[1]
    tile = GPU_TILE_COLUMNS if on_gpu(z) else max(MIN_TILE_COLUMNS, c // 4)
    if not writable(z) or c < 2 * tile:
        return symmetrised(namespace(x).matrix_transpose(x) @ z)
    edges = [*range(0, c - tile // 2, tile), c]
    result = empty_like((c, c), z)
    for row, (top, bottom) in enumerate(pairwise(edges)):
        for left, right in pairwise(edges[row:]):
            write_product(x[:, top:bottom].T, z[:, left:right], result[top:bottom, left:right])
            if left > top:
                result[left:right, top:bottom] = result[top:bottom, left:right].T
    return result


def subtract_symmetric(matrix: Array, left: Array, rows: Array, codes: Array) -> Array:
    """A − S T − (S T)ᵀ for T = `rows` (q, n) and S (n, q), which has one entry `left` (n,) per row,
    in column `codes` (n,).

    In place and block by block where the library is NumPy: A is n² numbers.
    """
    if not isinstance(matrix, np.ndarray):
        product = left[:, None] * namespace(matrix).take(rows, codes, axis=0)
        return matrix - product - product.T
    n = matrix.shape[0]
    step = max(1, SUBTRACTED_ENTRIES // n)

    def subtract(span: slice) -> None:
        if len(rows) == 1:
            matrix[span] -= left[span, None] * rows
            matrix[span] -= rows[0, span, None] * left
            return
        across = rows[codes[span]]
        across *= left[span, None]
        matrix[span] -= across
        down = rows[:, span][codes]
        down *= left[:, None]
        matrix[span] -= down.T

    for _ in in_order(subtract, runs_of_rows(n, step), matrix):
        pass
    return matrix
