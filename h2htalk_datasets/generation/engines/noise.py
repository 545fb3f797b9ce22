"""Random numbers as a function of seed and place, so that they need no state."""

__all__ = ["gumbel_noise"]

import torch


def gumbel_noise(seeds: torch.Tensor, counts: torch.Tensor, size: int) -> torch.Tensor:
    """Return Gumbel noise that is a function of a row's seed and its number of tokens alone.

    It is a hash (the finalizer of SplitMix64, Steele et al. 2014) of seed, count and token, and so needs no state that
    a captured step could not change.

    Args:
        seeds: shape (rows,), 0 to 2**63 - 1.
        counts: tokens before this one, shape (rows,).
        size: of the vocabulary.

    Returns:
        Shape (rows, size), float32.

    """
    token = torch.arange(size, device=seeds.device, dtype=torch.long)
    state = _mixed(_mixed(seeds + counts * 0x632BE59BD9B4E019)[:, None] + token * -0x61C8864680B583EB)
    uniform = ((state & (2**53 - 1)).double() + 0.5) / 2**53
    return (-(-uniform.log()).log()).float()


def _mixed(state: torch.Tensor) -> torch.Tensor:
    """Mix the bits of 64-bit integers; products overflow on purpose."""
    state = (state ^ _shifted(state, 30)) * -0x40A7B892E31B1A47
    state = (state ^ _shifted(state, 27)) * -0x6B2FB644ECCEEE15
    return state ^ _shifted(state, 31)


def _shifted(state: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift right without the sign, which torch's shift would copy."""
    return (state >> bits) & (2 ** (64 - bits) - 1)
