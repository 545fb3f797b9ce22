"""oneDNN's products: the same numbers as torch's, also after weights changed, and gradients where they are wanted."""

import copy

import pytest
import torch

from h2htalk_datasets.generation.engines import onednn

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


@pytest.fixture(params=[True, False], ids=["decodes", "prefills"])
def model(request):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.GELU(), torch.nn.Linear(48, 16, bias=False)).eval()
    onednn.multiply_by_onednn(layers, decodes=request.param)
    return layers


def by_torch(model, inputs):
    plain = copy.deepcopy(model)
    for layer in plain:
        layer.__dict__.pop("forward", None)
    return plain(inputs)


@pytest.mark.parametrize("rows", [1, 3, onednn._FEW, onednn._FEW + 1, 300])
@torch.inference_mode()
def test_products_are_torchs_for_few_rows_and_many(model, rows):
    inputs = torch.randn(rows, 1, 32)
    torch.testing.assert_close(model(inputs), by_torch(model, inputs), rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_a_changed_weight_is_seen(model):
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
        model(inputs)  # keeps the weights in their other order
    model(inputs).sum().backward()
    assert model[0].weight.grad.abs().sum() > 0


def test_what_is_kept_twice_is_in_no_checkpoint_and_ends_at_a_size(model, monkeypatch):
    with torch.inference_mode():
        model(torch.randn(2, 32))
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight"}
    monkeypatch.setattr(onednn, "_MOST_BYTES", 10)
    onednn.multiply_by_onednn(model, decodes=True)
    assert all(layer.forward.args[2] is None for layer in (model[0], model[2]))
