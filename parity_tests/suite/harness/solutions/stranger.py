"""The file of a solution: functions that say how they were called, and functions that mean harm."""

STRANGER = """
import ctypes
import json
import os
import struct
import subprocess
import sys
import threading
import time

import torch


def call(which, *args, **params):
    return globals()[which](*args, **params)


def told(*facts):
    return torch.tensor([float(fact) for fact in facts])


def arguments(x, y):
    same = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    is_parameter = isinstance(x, torch.nn.Parameter)
    return told(x is y, same, x.requires_grad, y.requires_grad, is_parameter, x.is_leaf, x._version)


def strides(x):
    return torch.tensor([*x.stride(), x.storage_offset(), x.is_conj(), x.is_neg()])


def modes(x):
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    strict = torch.are_deterministic_algorithms_enabled()
    return told(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), dtype is torch.bfloat16, strict)


def numbers(x, *args, **params):
    assert args == (None, True, 3, 2.5, float("inf"), 1 + 2j, "text", [1, (2,)], torch.bfloat16), args
    assert params == {"device": torch.device("cpu"), "format": torch.channels_last}, params
    return x * 2


def places(x):
    return torch.tensor([x.untyped_storage().data_ptr(), id(x), x._version])


def imported(x):
    return told(*(name in sys.modules for name in ("torch", "jax", "parity_tests", "gradparity")))


class InOneMemory(torch.autograd.Function):
    buffers = {"forward": torch.empty(3), "backward": torch.empty(3)}

    @staticmethod
    def forward(ctx, x):
        return InOneMemory.buffers["forward"].data.copy_(2 * x)

    @staticmethod
    def backward(ctx, y_bar):
        return InOneMemory.buffers["backward"].data.copy_(2 * y_bar)


def in_one_memory(x):
    return InOneMemory.apply(x)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(False)
        return x * y, x + y

    @staticmethod
    def backward(ctx, p, s):
        x, y = ctx.saved_tensors
        if p is None and s is None:
            return None, torch.full_like(y, 7.0)
        p = 0 if p is None else p
        s = 0 if s is None else s
        return p * y + s, p * x + s


product = Product.apply


def detached(x):
    return x.detach() * 2, x * 2, (x > 0)


def itself(x):
    return x


def view(x):
    return x[1:]


def writes(x):
    x.data.zero_()
    return x * 1


def puts_back(x):
    old = x.detach().clone()
    with torch.no_grad():
        x.zero_()
        x.copy_(old)
    return x * 1


class Later(torch.Tensor):
    pass


def later(x):
    return torch.ones(3).as_subclass(Later)


def sparse(x):
    return torch.eye(3).to_sparse()


def text(x):
    return "no tensor"


def thread_local(x):
    return told(threading.get_ident())


def raises(x):
    raise IndexError("too far\\nsecond line")


def leaves(x):
    sys.exit(3)


def ends(x):
    os._exit(0)


def crashes(x):
    ctypes.string_at(0)


def hangs(x):
    while True:
        time.sleep(1)


def pipe():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:") and int(name) > 2:
                os.write(int(name), b"")
                yield int(name)
        except OSError:
            continue


def says(x, hexadecimal):
    data = bytes.fromhex(hexadecimal)
    for descriptor in pipe():
        try:
            os.write(descriptor, data)
        except OSError:
            continue
    time.sleep(0.5)
    os._exit(0)


def answers(x, text):
    from gradparity_guest import serving

    def send(self, header, buffers, deadline=None):
        return real(self, json.loads(text.replace('"N"', str(header["n"]))), [bytes(8)])

    real, serving.Channel.send = serving.Channel.send, send
    return x


def leaves_a_process(x, seconds):
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execv("/bin/sleep", ["sleep", seconds])
        os._exit(0)
    return x


def reads(x, path):
    with open(path) as file:
        raise RuntimeError(file.read())


def changes(x):
    torch.allclose = lambda *args, **params: True
    return x * 1
"""
