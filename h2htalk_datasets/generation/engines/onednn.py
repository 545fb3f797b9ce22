"""Faster linear layers on CPUs, for models that only infer."""

__all__ = ["multiply_by_onednn"]

from functools import partial
from typing import Any

_FEW = 64  # rows up to which a product is bound by reading the weights, so that their order counts
_MOST_BYTES = 4 * 2**30  # of weights that are kept twice; beyond, the memory is worth more


def multiply_by_onednn(model: Any, *, decodes: bool = False) -> None:
    """Let oneDNN multiply in a CPU model's linear layers, in float32 as before; results agree to some 1e-6.

    Torch gives such products to MKL, which on AMD's processors runs at less than half of oneDNN's speed. Where
    gradients are wanted, and in other precisions, the layers stay as they are.

    Args:
        model: changed in place.
        decodes: the model multiplies a few rows at a time. Up to 4 GiB of weights are then also kept in oneDNN's own
            order, in which such products take some two thirds of the time.

    """
    import torch

    product = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
    if product is None:
        return
    layers = [
        layer
        for layer in model.modules()
        if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu"
    ]
    twice = decodes and sum(layer.weight.nbytes for layer in layers) <= _MOST_BYTES
    for layer in layers:
        layer.forward = partial(_linear, product, layer, _Packed(layer) if twice else None)  # type: ignore[method-assign]


def _linear(product: Any, layer: Any, packed: "_Packed | None", inputs: Any) -> Any:
    import torch

    if torch.is_grad_enabled():
        return torch.nn.functional.linear(inputs, layer.weight, layer.bias)
    few = inputs.shape[:-1].numel() <= _FEW
    return product(inputs, packed.weight() if packed and few else layer.weight, layer.bias, "none", [], "")


class _Packed:
    """A layer's weight in oneDNN's order, ordered anew when the layer's own has changed."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._made_of: tuple[int, int] | None = None
        self._weight: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the model makes its own; oneDNN's tensors can't be copied."""
        return {"_layer": self._layer, "_made_of": None, "_weight": None}

    def weight(self) -> Any:
        import torch

        weight = self._layer.weight
        now = (weight.data_ptr(), weight._version)
        if now != self._made_of:
            self._weight, self._made_of = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _FEW), now
        return self._weight
