"""oneDNN's products: the same numbers as torch's, also after weights have changed, and gradients where needed."""

import copy

import pytest
import torch

from h2htalk_datasets.generation.engines.onednn import MAX_PACKED_ROWS, multiply_by_onednn

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.GELU(), torch.nn.Linear(48, 16, bias=False)).eval()


@pytest.fixture(params=[True, False], ids=["decodes", "prefills"])
def model(request):
    model = layers()
    multiply_by_onednn(model, decodes=request.param)
    return model


def by_torch(model, inputs):
    plain = copy.deepcopy(model)
    for layer in plain:
        layer.__dict__.pop("forward", None)
    return plain(inputs)


@pytest.mark.parametrize("rows", [1, 3, MAX_PACKED_ROWS, MAX_PACKED_ROWS + 1, 300])
@torch.inference_mode()
def test_products_are_torchs_for_few_rows_and_many(model, rows):
    inputs = torch.randn(rows, 1, 32)
    torch.testing.assert_close(model(inputs), by_torch(model, inputs), rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_a_changed_weight_is_noticed(model):
    inputs = torch.randn(4, 32)
    before = model(inputs)
    with torch.inference_mode(False), torch.no_grad():
        model[0].weight.mul_(2)  # as an optimizer does
        model[2].weight = torch.nn.Parameter(torch.randn(16, 48))
    assert not torch.allclose(model(inputs), before, atol=1e-2)
    torch.testing.assert_close(model(inputs), by_torch(model, inputs), rtol=1e-5, atol=1e-5)


def test_gradients_are_torchs(model):
    inputs = torch.randn(4, 32)
    with torch.inference_mode():
        model(inputs)  # packs the weights
    model(inputs).sum().backward()
    assert model[0].weight.grad.abs().sum() > 0


@torch.inference_mode()
def test_a_model_that_is_converted_afterwards_multiplies_by_torch(model):
    inputs = torch.randn(4, 32)
    expected = by_torch(copy.deepcopy(model).to(torch.bfloat16), inputs.bfloat16())
    assert torch.equal(model.to(torch.bfloat16)(inputs.bfloat16()), expected)


def test_packed_weights_are_in_no_checkpoint(model):
    with torch.inference_mode():
        model(torch.randn(2, 32))
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight"}


@pytest.mark.parametrize(("max_packed_bytes", "packed"), [(10**6, True), (10, False)])
def test_large_weights_are_not_packed(max_packed_bytes, packed, monkeypatch):
    reorder, packings = torch.ops.mkldnn._reorder_linear_weight, []
    monkeypatch.setattr(
        torch.ops.mkldnn, "_reorder_linear_weight", lambda *args: packings.append(1) or reorder(*args), raising=False
    )
    model = layers()
    multiply_by_onednn(model, decodes=True, max_packed_bytes=max_packed_bytes)
    with torch.inference_mode():
        model(torch.randn(2, 32))
    assert bool(packings) == packed
