"""The smallest message of each kind."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from hyfdca.protocol.messages import Message

_inspect = msgspec.inspect


@cache
def example(kind: type[Message]) -> Any:
    """Return a message of that kind that decodes."""
    return _value(_inspect.type_info(kind))


def _value(info: Any) -> Any:
    """Return the smallest value of a type of msgspec."""
    makers = {
        _inspect.StructType: lambda: info.cls(*(_value(f.type) for f in info.fields)),
        _inspect.UnionType: lambda: None,  # all are optional
        _inspect.ListType: list,
        _inspect.DictType: dict,
        _inspect.TupleType: lambda: tuple(map(_value, info.item_types)),
        _inspect.VarTupleType: tuple,
        _inspect.IntType: lambda: info.ge or 0,
        _inspect.FloatType: lambda: info.ge or 0.0,
        _inspect.LiteralType: lambda: info.values[0],
        _inspect.StrType: lambda: "a" * (info.min_length or 0),
        _inspect.BoolType: bool,
        _inspect.BytesType: lambda: bytes(info.min_length or 0),
        _inspect.MemoryViewType: lambda: memoryview(b""),
    }
    return makers[type(info)]()
