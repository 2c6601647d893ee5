"""An image as a sequence: squares of pixels, row by row, and back."""

from attnlib.core.arrays import namespace, valid_length


def image_patches(images, patch):
    """Cut images into squares, each of which becomes one token.

    Token ``i * (W / patch) + j`` is the square in row ``i`` and column ``j``; its features are its pixels,
    row by row, with the colours of a pixel side by side.

    Parameters
    ----------
    images : array (..., H, W, C)
        Of any type. Grey images have one colour, ``C = 1``.
    patch : int >= 1
        Pixels on a side; divides ``H`` and ``W``.

    Returns
    -------
    array (..., H * W / patch**2, patch**2 * C)

    Raises
    ------
    TypeError, ValueError
        If ``images`` is no such array, or ``patch`` does not divide its sides.

    References
    ----------
    Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.arange(8).reshape(2, 4, 1)
    >>> image_patches(image, 2)    # rows 0 1 2 3 and 4 5 6 7, in two squares
    array([[0, 1, 4, 5],
           [2, 3, 6, 7]])
    """
    xp, patch = namespace(images=images), valid_length(patch, "patch")
    if images.ndim < 3 or 0 in images.shape:
        raise ValueError(f"images must have shape (..., H, W, C), not empty; got {tuple(images.shape)}")
    *before, H, W, C = images.shape
    if H % patch or W % patch:
        raise ValueError(f"patch must divide the sides of an image, {H} and {W}; got {patch}")
    squares = xp.reshape(images, (*before, H // patch, patch, W // patch, patch, C))
    return xp.reshape(_swapped(xp, squares), (*before, H * W // patch**2, patch**2 * C))


def image_from_patches(patches, grid, patch):
    """Lay squares of pixels side by side again; the inverse of `image_patches`.

    Parameters
    ----------
    patches : array (..., N, patch**2 * C)
    grid : (int, int)
        Rows and columns of squares; their product is ``N``.
    patch : int >= 1
        Pixels on a side.

    Returns
    -------
    array (..., H, W, C)

    Raises
    ------
    TypeError, ValueError
        If ``patches`` is no such array, or a size does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> squares = np.array([[0, 1, 4, 5], [2, 3, 6, 7]])
    >>> image_from_patches(squares[::-1], (1, 2), 2)[..., 0]
    array([[2, 3, 0, 1],
           [6, 7, 4, 5]])
    """
    xp, (rows, columns), patch = namespace(patches=patches), valid_grid(grid), valid_length(patch, "patch")
    if patches.ndim < 2 or 0 in patches.shape:
        raise ValueError(f"patches must have shape (..., N, features), not empty; got {tuple(patches.shape)}")
    *before, n, features = patches.shape
    if n != rows * columns or features % patch**2:
        raise ValueError(
            f"patches must be {rows} x {columns} squares of a multiple of {patch}**2 features; got shape "
            f"{tuple(patches.shape)}"
        )
    colours = features // patch**2
    squares = xp.reshape(patches, (*before, rows, columns, patch, patch, colours))
    return xp.reshape(_swapped(xp, squares), (*before, rows * patch, columns * patch, colours))


def valid_grid(grid):
    """Rows and columns of an image, if it is two positive integers."""
    if not isinstance(grid, tuple | list) or len(grid) != 2:
        raise TypeError(f"grid must be two integers, rows and columns; got {grid!r}")
    return tuple(valid_length(n, "grid") for n in grid)


def _swapped(xp, squares):
    """The fourth and the third axis from the end exchanged."""
    axes = list(range(squares.ndim))
    axes[-4], axes[-3] = axes[-3], axes[-4]
    return xp.permute_dims(squares, axes)
