# SPDX-License-Identifier: Apache-2.0
"""For ms-swift. 4.x: --external_plugins THIS --callbacks alula (Megatron-SWIFT likewise); 3.x: --external_plugins THIS.
ALULA_INTERVAL_STEPS is the number of steps between two lines."""

import sys


def _register() -> None:
    from alula import callback
    callback.interval_of_environment()  # a wrong one is told now and not in the midst of the training
    try:
        from swift.callbacks.mapping import callbacks_map
    except ImportError:
        from swift.plugin.callback import extra_callbacks  # 3.x; Megatron has no callbacks there
        if not any(isinstance(other, callback.ResourceMonitorCallback) for other in extra_callbacks):
            extra_callbacks.append(callback.ResourceMonitorCallback(callback.interval_of_environment()))
        return
    from swift.callbacks.base import TrainerCallback
    callbacks_map["alula"] = callback.swift_class(TrainerCallback)
    # Its import brings Megatron up, which a job that trains with it has done by now.
    if "swift.megatron" in sys.modules:
        from swift.megatron.callbacks.base import MegatronCallback
        from swift.megatron.callbacks.mapping import megatron_callbacks_map
        megatron_callbacks_map["alula"] = callback.megatron_class(MegatronCallback)


_register()
