"""Faster linear layers on CPUs, for inference."""

__all__ = ["multiply_by_onednn"]

from functools import partial
from typing import Any

MAX_PACKED_ROWS = 64  # up to which a product is limited by reading the weights, so that their layout matters
MAX_PACKED_BYTES = 4 * 2**30  # of weights that are stored twice


def multiply_by_onednn(model: Any, *, decodes: bool = False, max_packed_bytes: int = MAX_PACKED_BYTES) -> None:
    """Compute a CPU model's float32 linear layers with oneDNN; results agree with torch's to about 1e-6.

    Torch uses MKL, which on AMD's processors has less than half of oneDNN's speed. Where gradients are needed and in
    other precisions the layers stay as they are.

    Args:
        model: changed in place.
        decodes: the model multiplies a few rows at a time, as a decoder does. Its weights are then also stored in
            oneDNN's own layout, in which such products take about two thirds of the time.
        max_packed_bytes: size of the weights up to which they are stored twice.

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
    packs = decodes and sum(layer.weight.nbytes for layer in layers) <= max_packed_bytes
    for layer in layers:
        packed = _PackedWeight(layer) if packs else None
        layer.forward = partial(_linear, product, layer, packed)  # type: ignore[method-assign]


def _linear(product: Any, layer: Any, packed: "_PackedWeight | None", inputs: Any) -> Any:
    import torch

    # A model may be converted or moved after it was prepared, and not every CPU has half-precision products in oneDNN.
    moved = layer.weight.dtype != torch.float32 or layer.weight.device.type != "cpu"
    if moved or torch.is_grad_enabled():
        return torch.nn.functional.linear(inputs, layer.weight, layer.bias)
    few_rows = inputs.shape[:-1].numel() <= MAX_PACKED_ROWS
    return product(inputs, packed.weight() if packed and few_rows else layer.weight, layer.bias, "none", [], "")


class _PackedWeight:
    """A layer's weight in oneDNN's layout, packed again after the layer's own weight has changed."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._version: tuple[int, int] | None = None
        self._weight: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the packed weight out of copies of the model: oneDNN's tensors cannot be copied."""
        return {"_layer": self._layer, "_version": None, "_weight": None}

    def weight(self) -> Any:
        import torch

        weight = self._layer.weight
        version = (weight.data_ptr(), weight._version)
        if version != self._version:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), MAX_PACKED_ROWS)
            self._version = version
        return self._weight
