# SPDX-License-Identifier: Apache-2.0
"""Figures of torch's allocator in this process, if the job itself has brought CUDA up. Torch is never imported here, CUDA
never initialised, and nothing synchronises."""

import sys
from typing import Any, Dict, Optional, Tuple

GB = 1 << 30


def cuda() -> Any:
    """torch.cuda once it is initialised, else None."""
    module = sys.modules.get("torch.cuda")
    try:
        return module if module is not None and module.is_initialized() else None
    except Exception:
        return None


def device_of(uuid: str, index: int) -> Optional[int]:
    """torch's number of a GPU that the driver knows by these; None when it is not told for sure."""
    module = cuda()
    if module is None:
        return None
    count = module.device_count()
    uuids = [getattr(module.get_device_properties(i), "uuid", None) for i in range(count)]
    if all(u is not None for u in uuids):  # from torch 2.4 on
        found = [i for i, u in enumerate(uuids) if str(u) in uuid]
        return found[0] if found else None
    visible = _visible()
    if visible is not None:
        found = [i for i, name in enumerate(visible[:count]) if name == str(index) or name.startswith("GPU-")
                 and uuid.startswith(name)]
        return found[0] if found else None
    return index if index < count else None


def _visible() -> Any:
    import os
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def local_rank() -> int:
    import os
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return 0


def own_gpu() -> Optional[str]:
    """The GPU that this process computes on, as the driver's name or index; None when it may use none."""
    module = cuda()
    if module is not None:
        device = module.current_device()
        uuid = getattr(module.get_device_properties(device), "uuid", None)
        if uuid is not None:
            return str(uuid) if str(uuid).startswith(("GPU-", "MIG-")) else "GPU-%s" % uuid
    else:
        device = local_rank()
    visible = _visible()
    if visible is None:
        return str(device)
    if not visible or visible[0] == "-1":
        return None
    return str(visible[device % len(visible)])


def _used(device: int) -> bool:
    """Whether this process has a context on the device: others are not even asked for their figures."""
    test = getattr(getattr(sys.modules.get("torch"), "_C", None), "_cuda_hasPrimaryContext", None)
    return True if test is None else bool(test(device))


def of_device(device: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    """(allocated, reserved) bytes; (None, None) without CUDA."""
    module = cuda()
    if module is None or device is None:
        return None, None
    if not _used(device):
        return 0, 0
    return module.memory_allocated(device), module.memory_reserved(device)


def of_process() -> Dict[int, Tuple[int, int]]:
    """{device: (allocated, reserved)} of all devices that are used; empty without CUDA."""
    module = cuda()
    if module is None:
        return {}
    return {i: (module.memory_allocated(i), module.memory_reserved(i)) for i in range(module.device_count()) if _used(i)}


def capturing() -> bool:
    module = cuda()
    test = getattr(module, "is_current_stream_capturing", None)
    return bool(test()) if test is not None else False
