"""Batch norm whose statistics are those of the whole batch, whichever processes its rows are in."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from deixis.training.distributed import at_least_float32, process_count, sum_with_gradient


class SharedBatchNorm(_BatchNorm):
    """Batch norm over the rows of all processes; on the processor too, where torch's SyncBatchNorm does not run.

    With one process, or in `eval` mode, it is torch's own batch norm. Weights and running statistics have the same
    names as there.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel: the second dimension."""
        if process_count() == 1 or not self.training:
            normalised: Tensor = super().forward(input)
            return normalised
        self._check_input_dim(input)
        across = [0, *range(2, input.dim())]
        rows = input.to(at_least_float32(input.dtype))
        count = rows.new_tensor([rows.numel() / rows.shape[1]])
        summed = sum_with_gradient(torch.cat([rows.sum(across), count]))
        count = summed[-1].detach()
        if count <= 1:
            raise ValueError("batch norm needs more than one value for each channel in training")
        mean = summed[:-1] / count
        shape = [1, -1] + [1] * (input.dim() - 2)
        centred = rows - mean.view(shape)
        # Squared only once centred: the difference of two large sums would lose digits.
        variance = sum_with_gradient(centred.square().sum(across)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        normal = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.weight is not None:
            normal = normal * self.weight.view(shape)
        if self.bias is not None:
            normal = normal + self.bias.view(shape)
        return normal.to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None  # noqa: S101 - it is there whenever the others are
        self.num_batches_tracked += 1
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


def share_batch_norm(module: nn.Module) -> nn.Module:
    """Put a `SharedBatchNorm` in the place of each batch norm in a network, with the same weights.

    Examples
    --------
    >>> network = share_batch_norm(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    >>> [type(part).__name__ for part in network.children()]
    ['Linear', 'SharedBatchNorm']
    """
    if isinstance(module, _BatchNorm) and not isinstance(module, SharedBatchNorm):
        return _shared(module)
    for name, child in module._modules.items():  # `named_children` passes over a part that has two names
        if child is not None:
            module._modules[name] = share_batch_norm(child)
    return module


def _shared(module: _BatchNorm) -> SharedBatchNorm:
    shared = SharedBatchNorm(
        module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
    )
    # The very same tensors, not copies: an optimiser may hold them already.
    shared._parameters, shared._buffers = module._parameters, module._buffers
    shared.train(module.training)
    return shared
