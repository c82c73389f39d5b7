"""Decimals, as PostgreSQL's binary COPY takes a ``numeric``.

One rule: all values of a column get the same number of digits (of base 10,000), also where zeros stand in front or
behind: the server cuts those off. So the field has a fixed width, and is worked out for all rows at once.

On the wire: how many digits, the power of the first, the sign, the digits behind the point that are shown (2 bytes
each), and then the digits (2 bytes each).
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BASE = 10_000
_DIGIT = 4
_CHUNK = np.uint64(BASE * BASE)
_NEGATIVE = 0x4000
_LIMBS = 4
_LIMB_BITS = 32


def numeric(array: pa.Array) -> tuple[NDArray[Any], np.dtype[Any]]:
    """The values of a ``decimal128`` array, and their type on the wire. Where one is null, anything."""
    precision, scale = array.type.precision, array.type.scale
    before, behind = max(0, -(-(precision - scale) // _DIGIT)), -(-max(scale, 0) // _DIGIT)
    digits = before + behind
    limbs, negative = _magnitudes(array)
    # Digits begin at the point: so the last of them may need zeros behind it.
    zeros = behind * _DIGIT - scale
    _multiply(limbs, 10**zeros, precision + zeros)
    kind = np.dtype([("digits", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2"), ("d", ">i2", (digits,))])
    values = np.empty(len(array), kind)
    values["digits"], values["weight"], values["scale"] = digits, before - 1, max(scale, 0)
    values["sign"] = np.where(negative, _NEGATIVE, 0)
    for end in range(digits, 0, -2):
        chunk = _divide(limbs)
        values["d"][:, end - 1] = chunk % BASE
        if end > 1:
            values["d"][:, end - 2] = chunk // BASE
    return values, kind


def _magnitudes(array: pa.Array) -> tuple[list[NDArray[np.uint64]], NDArray[np.bool_]]:
    """The values without their signs, as limbs of 32 bits, the lowest first; and which are negative."""
    data = np.frombuffer(array.buffers()[1], np.uint32).reshape(-1, _LIMBS)[array.offset : array.offset + len(array)]
    negative = data[:, -1] >> 31 == 1
    carry = negative.astype(np.uint64)
    flip = np.where(negative, np.uint64(0xFFFFFFFF), np.uint64(0))
    limbs = []
    for place in range(_LIMBS):
        limb = (data[:, place].astype(np.uint64) ^ flip) + carry
        carry = limb >> np.uint64(_LIMB_BITS)
        limbs.append(limb & np.uint64(0xFFFFFFFF))
    return limbs, negative


def _multiply(limbs: list[NDArray[np.uint64]], factor: int, digits: int) -> None:
    """Multiply in place; the product has this many decimal digits at most, and as many limbs as those need."""
    needed = max(1, math.ceil(digits * math.log2(10) / _LIMB_BITS))
    carry = np.zeros_like(limbs[0])
    for place, limb in enumerate(limbs):
        product = limb * np.uint64(factor) + carry
        carry = product >> np.uint64(_LIMB_BITS)
        limbs[place] = product & np.uint64(0xFFFFFFFF)
    limbs.append(carry)
    del limbs[needed:]


def _divide(limbs: list[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """Divide by the square of the base in place; the remainders."""
    rest = np.zeros_like(limbs[0])
    for place in range(len(limbs) - 1, -1, -1):
        value = (rest << np.uint64(_LIMB_BITS)) | limbs[place]
        limbs[place], rest = np.divmod(value, _CHUNK)
    return rest.astype(np.int64)
