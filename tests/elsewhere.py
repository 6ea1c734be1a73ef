"""A device that is not there, for tests: tensors say that they lie on it, and are computed on the CPU after all.

Knows nothing of engines. What PyTorch refuses on a GPU is refused here too: an operation whose tensors lie on both
sides, unless it copies from one to the other, or the tensor on the CPU is a single number or an index; and numbers that
are read without being brought to the CPU. How a GPU rounds, what its kernels can do and how long they take is not here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = "cuda:0"
ON_THE_CPU_ONLY = (Tensor.numpy, Tensor.__array__, Tensor.data_ptr)
PLACE = {Tensor.device.__get__: torch.device(ELSEWHERE), Tensor.is_cpu.__get__: False, Tensor.is_cuda.__get__: True}


class Far(Tensor):
    """A tensor of the device; `held` has its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Far":
        return Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=ELSEWHERE)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        return compute(function, arguments, named or {})

    @classmethod
    def __torch_dispatch__(cls, operation, types, arguments=(), named=None):
        raise AssertionError(f"{operation} came past the check")

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())


class Watch(TorchFunctionMode):
    """Sees the calls that make tensors, of nothing or of tensors on the CPU."""

    def __torch_function__(self, function, types, arguments=(), named=None):
        return compute(function, arguments, named or {})


def compute(function: Callable, arguments: tuple, named: dict) -> object:
    """One call: checked, done on the CPU, and its result put where it belongs."""
    if function is torch.device:
        return torch.device(*arguments, **named)
    leaves = tree_leaves((arguments, named))
    far = [leaf for leaf in leaves if isinstance(leaf, Far)]
    if far and function in PLACE:
        return PLACE[function]
    if far:
        check(function, arguments, [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, Far)])
    asked = [str(leaf) for leaf in leaves if isinstance(leaf, torch.device | str) and str(leaf) in ("cpu", ELSEWHERE)]
    will_be_far = asked[0] != "cpu" if asked else bool(far) and function is not Tensor.cpu
    owners = {id(tensor.held): tensor for tensor in far}

    def near(leaf: object) -> object:
        if isinstance(leaf, Far):
            return leaf.held
        return "cpu" if isinstance(leaf, torch.device | str) and str(leaf) == ELSEWHERE else leaf

    def placed(leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return leaf
        if will_be_far != bool(far):
            leaf = leaf.clone()  # what crosses shares no memory
        if not will_be_far:
            return leaf
        return owners[id(leaf)] if id(leaf) in owners else Far(leaf)

    arguments, named = tree_map(near, (arguments, named))
    return tree_map(placed, function(*arguments, **named))


def check(function: Callable, arguments: tuple, others: list[Tensor]) -> None:
    """Raises for a call with a tensor of the device that could not be done there; `others` lie on the CPU."""
    if function in ON_THE_CPU_ONLY:
        raise TypeError(f"{function.__name__} of a tensor on {ELSEWHERE}; bring it to the CPU first")
    indices = []
    if function in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(arguments[0], Far):
        indices = [leaf for leaf in tree_leaves(arguments[1]) if isinstance(leaf, Tensor)]
    is_copy = function is Tensor.copy_ or (function is Tensor.__setitem__ and not indices)
    wrong = [tensor for tensor in others if tensor.dim() and not any(tensor is index for index in indices)]
    if wrong and not is_copy:
        raise RuntimeError(f"{function.__name__} was given tensors on {ELSEWHERE} and on the CPU")


@contextmanager
def elsewhere() -> Iterator[str]:
    """Inside, tensors can lie on the device of the name that is given."""
    driver = {"synchronize": lambda device: None, "get_device_name": lambda: ELSEWHERE}
    with Watch(), mock.patch.multiple(torch.cuda, **driver):
        yield ELSEWHERE
