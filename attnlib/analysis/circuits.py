"""What a head does whatever the tokens are: products of its weight matrices, read as circuits.

Vectors are rows here, as in TransformerLens: ``W_Q``, ``W_K`` and ``W_V`` are (d_model, d_head) for each
head, ``W_O`` is (d_head, d_model), ``W_E`` (d_vocab, d_model) and ``W_U`` (d_model, d_vocab). Elhage et al.
2021 write columns, so that each of their matrices is the transpose of one here. Biases, layer norm,
positions and the scale ``1 / sqrt(d_head)`` are outside the circuits.
"""

import numpy as np

from attnlib.core.arrays import namespace, valid_length
from attnlib.core.shapes import working_arrays


def qk_circuit(W_Q, W_K):
    """Which vector of the residual stream attends to which: ``W_Q @ W_K.T``.

    The score of query ``x`` for key ``y`` is ``x @ qk @ y / sqrt(d_head)``.

    Parameters
    ----------
    W_Q, W_K : array (..., d_model, d_head)
        Of one head or, with leading axes, of many.

    Returns
    -------
    array (..., d_model, d_model)
        Of rank ``d_head`` at most.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", section "Splitting attention
    heads into QK and OV circuits": ``W_QK = W_Q.T W_K``, of columns.

    Examples
    --------
    >>> import numpy as np
    >>> qk_circuit(np.array([[1.0], [0.0]]), np.array([[0.0], [2.0]]))     # feature 0 looks for feature 1
    array([[0., 2.],
           [0., 0.]])
    """
    axes = {"W_Q": (..., "d_model", "d_head"), "W_K": (..., "d_model", "d_head")}
    xp, dtype, (W_Q, W_K) = working_arrays({"W_Q": W_Q, "W_K": W_K}, axes)
    return xp.astype(W_Q @ W_K.mT, dtype, copy=False)


def ov_circuit(W_V, W_O):
    """What attending to a vector of the residual stream adds to the stream: ``W_V @ W_O``.

    A head adds ``A @ x @ ov``, with ``A`` its attention: which tokens, and what of them, are apart.

    Parameters
    ----------
    W_V : array (..., d_model, d_head)
    W_O : array (..., d_head, d_model)

    Returns
    -------
    array (..., d_model, d_model)
        Of rank ``d_head`` at most.

    Raises
    ------
    TypeError, ValueError
        As for `qk_circuit`.

    References
    ----------
    Elhage et al. 2021, as for `qk_circuit`: ``W_OV = W_O W_V``, of columns, the transpose of this.

    Examples
    --------
    >>> import numpy as np
    >>> ov_circuit(np.array([[1.0], [0.0]]), np.array([[0.0, 2.0]]))       # feature 0 becomes feature 1
    array([[0., 2.],
           [0., 0.]])
    """
    axes = {"W_V": (..., "d_model", "d_head"), "W_O": (..., "d_head", "d_model")}
    xp, dtype, (W_V, W_O) = working_arrays({"W_V": W_V, "W_O": W_O}, axes)
    return xp.astype(W_V @ W_O, dtype, copy=False)


def full_qk_circuit(W_E, W_Q, W_K):
    """Which token attends to which, from the embedding alone: ``W_E @ W_Q @ W_K.T @ W_E.T``.

    Parameters
    ----------
    W_E : array (d_vocab, d_model)
    W_Q, W_K : array (..., d_model, d_head)

    Returns
    -------
    array (..., d_vocab, d_vocab)
        Row: the token that asks; column: the token that is looked at. Before the scale.

    Raises
    ------
    TypeError, ValueError
        As for `qk_circuit`.

    References
    ----------
    Elhage et al. 2021, section "One-layer attention-only transformers": the QK circuit.

    Examples
    --------
    >>> import numpy as np
    >>> full_qk_circuit(np.eye(2), np.array([[1.0], [0.0]]), np.array([[0.0], [2.0]]))
    array([[0., 2.],
           [0., 0.]])
    """
    axes = {"W_E": ("d_vocab", "d_model"), "W_Q": (..., "d_model", "d_head"),
            "W_K": (..., "d_model", "d_head")}  # fmt: skip
    xp, dtype, (W_E, W_Q, W_K) = working_arrays({"W_E": W_E, "W_Q": W_Q, "W_K": W_K}, axes)
    return xp.astype((W_E @ W_Q) @ (W_E @ W_K).mT, dtype, copy=False)


def full_ov_circuit(W_E, W_V, W_O, W_U):
    """What attending to a token does to the logits: ``W_E @ W_V @ W_O @ W_U``.

    Parameters
    ----------
    W_E : array (d_vocab, d_model)
    W_V : array (..., d_model, d_head)
    W_O : array (..., d_head, d_model)
    W_U : array (d_model, d_vocab)

    Returns
    -------
    array (..., d_vocab, d_vocab)
        Row: the token that is looked at; column: the token whose logit changes. The diagonal is what a
        token does to itself.

    Raises
    ------
    TypeError, ValueError
        As for `qk_circuit`.

    References
    ----------
    Elhage et al. 2021, section "One-layer attention-only transformers": the OV circuit, the transpose of
    this.

    Examples
    --------
    >>> import numpy as np
    >>> full_ov_circuit(np.eye(2), np.array([[1.0], [0.0]]), np.array([[0.0, 2.0]]), np.eye(2))
    array([[0., 2.],
           [0., 0.]])
    """
    axes = {"W_E": ("d_vocab", "d_model"), "W_V": (..., "d_model", "d_head"),
            "W_O": (..., "d_head", "d_model"), "W_U": ("d_model", "d_vocab")}  # fmt: skip
    arrays = {"W_E": W_E, "W_V": W_V, "W_O": W_O, "W_U": W_U}
    xp, dtype, (W_E, W_V, W_O, W_U) = working_arrays(arrays, axes)
    return xp.astype((W_E @ W_V) @ (W_O @ W_U), dtype, copy=False)


def circuit_eigenvalues(left, right):
    """The eigenvalues of ``left @ right`` that need not be 0, from the small product ``right @ left``.

    Both products have the same eigenvalues but for zeros, and the second has ``r`` rows instead of ``n``:
    ``circuit_eigenvalues(W_V, W_O)`` for an OV circuit, ``circuit_eigenvalues(W_E @ W_V, W_O @ W_U)`` for a
    full one.

    Parameters
    ----------
    left : array (..., n, r)
    right : array (..., r, n)

    Returns
    -------
    complex array (..., r)
        By falling size. Complex numbers come in pairs; computed in float32 at least.

    Raises
    ------
    TypeError, ValueError
        As for `qk_circuit`.

    References
    ----------
    Elhage et al. 2021, section "Summarizing OV/QK matrices", and its note on low-rank matrices.

    Examples
    --------
    >>> import numpy as np
    >>> circuit_eigenvalues(np.array([[3.0], [0.0]]), np.array([[1.0, 5.0]]))
    array([3.+0.j])
    """
    axes = {"left": (..., "n", "r"), "right": (..., "r", "n")}
    xp, _, (left, right) = working_arrays({"left": left, "right": right}, axes)
    values = xp.linalg.eigvals(right @ left)
    values = xp.astype(values, xp.complex64 if left.dtype == xp.float32 else xp.complex128, copy=False)
    return xp.take_along_axis(values, xp.argsort(-xp.abs(values), axis=-1, stable=True), axis=-1)


def copying_score(eigenvalues):
    """How far a circuit copies: ``sum(eigenvalues) / sum(|eigenvalues|)``.

    1 where all are positive (a token raises its own logit), -1 where all are negative, near 0 where they
    lie all around. A summary, not a proof: a matrix with positive eigenvalues may still lower some token's
    own logit.

    Parameters
    ----------
    eigenvalues : array (..., r)
        Real or complex, as from `circuit_eigenvalues`.

    Returns
    -------
    real array (...)
        Between -1 and 1; 0 where all eigenvalues are 0.

    Raises
    ------
    TypeError, ValueError
        If ``eigenvalues`` is no array of numbers with one axis or more, or is empty.

    References
    ----------
    Elhage et al. 2021, section "Summarizing OV/QK matrices".

    Examples
    --------
    >>> import numpy as np
    >>> copying_score(np.array([[3.0, 1.0], [3.0, -1.0], [2j, -2j]]))
    array([1. , 0.5, 0. ])
    """
    xp = namespace(eigenvalues=eigenvalues)
    if not xp.isdtype(eigenvalues.dtype, ("real floating", "complex floating")):
        raise TypeError(f"eigenvalues must be real or complex numbers; got dtype {eigenvalues.dtype}")
    if not eigenvalues.ndim or 0 in eigenvalues.shape:
        raise ValueError(f"eigenvalues must have shape (..., r); got {tuple(eigenvalues.shape)}")
    real = xp.real(eigenvalues) if xp.isdtype(eigenvalues.dtype, "complex floating") else eigenvalues
    total = xp.sum(xp.abs(eigenvalues), axis=-1)
    return xp.sum(real, axis=-1) / xp.where(total == 0, xp.ones_like(total), total)


def composition_score(earlier, later):
    """How much of what an earlier head writes a later one reads: ``|earlier @ later| / (|earlier| |later|)``.

    With Frobenius norms, and ``ov`` and ``qk`` the circuits of the heads: ``earlier`` is the ``ov`` of the
    earlier head, and ``later`` is ``qk`` for Q-composition, ``qk.mT`` for K-composition, ``ov`` for
    V-composition. To be compared with `random_composition`, which is not 0.

    Parameters
    ----------
    earlier, later : array (..., d_model, d_model)
        Leading axes broadcast: ``ov[0][:, None]`` against ``qk[1][None]`` compares every head of a layer
        with every head of another.

    Returns
    -------
    array (...)
        Between 0 and 1; 0 where a matrix is zero.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or the shapes do not fit.

    References
    ----------
    Elhage et al. 2021, section "Two-layer attention-only transformers", ``|W_QK W_OV|_F`` and its like, of
    columns.

    Examples
    --------
    >>> import numpy as np
    >>> writes_0, reads_0, reads_1 = np.diag([2.0, 0]), np.diag([3.0, 0]), np.diag([0, 1.0])
    >>> composition_score(np.stack([writes_0, writes_0]), np.stack([reads_0, reads_1]))
    array([1., 0.])
    """
    xp, dtype, (earlier, later) = working_arrays({"earlier": earlier, "later": later}, {})
    _check_squares(tuple(earlier.shape), tuple(later.shape))
    size = _norm(xp, earlier) * _norm(xp, later)
    score = _norm(xp, earlier @ later) / xp.where(size == 0, 1, size)
    return xp.astype(score, dtype, copy=False)


def random_composition(d_model, d_head, *, n=100, seed=0):
    """Composition scores of heads that have nothing to do with each other: what to subtract.

    The circuits are products of normal (d_model, d_head) and (d_head, d_model) matrices. Their mean is
    close to ``1 / sqrt(d_model)``, and that is the root mean square for any two matrices, of any rank and
    singular values, of which one is turned at random.

    Parameters
    ----------
    d_model, d_head : int >= 1
    n : int >= 1
        Pairs to draw.
    seed : int

    Returns
    -------
    float64 array (n,), NumPy

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    References
    ----------
    Elhage et al. 2021, section "Two-layer attention-only transformers", whose figures subtract the score
    of random matrices of the same shape.

    Examples
    --------
    >>> float(random_composition(100, 16).mean().round(2))           # 1 / sqrt(100)
    0.1
    """
    d_model, d_head = valid_length(d_model, "d_model"), valid_length(d_head, "d_head")
    rng = np.random.default_rng(seed)
    scores = []
    for _ in range(valid_length(n, "n")):
        a, b = rng.normal(size=(2, d_model, d_head)), rng.normal(size=(2, d_head, d_model))
        scores.append(composition_score(*(a @ b)))
    return np.array(scores)


def _norm(xp, matrix):
    return xp.sqrt(xp.sum(matrix * matrix, axis=(-2, -1)))


def _check_squares(earlier, later):
    """Both shapes end in the same square, and what stands before it broadcasts."""
    for name, shape in (("earlier", earlier), ("later", later)):
        if len(shape) < 2 or shape[-2:] != (earlier[-1],) * 2 or 0 in shape:
            raise ValueError(
                f"{name} must have shape (..., d_model, d_model), the same d_model in both; got earlier "
                f"{earlier} and later {later}"
            )
    try:
        np.broadcast_shapes(earlier[:-2], later[:-2])
    except ValueError:
        raise ValueError(f"the leading axes of earlier {earlier} and later {later} must broadcast") from None
