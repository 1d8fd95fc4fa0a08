"""An environment that lacks a variable, or has another value."""

from __future__ import annotations

from collections.abc import Iterator

from check_states import State


def states() -> Iterator[State]:
    check = "gpu_env.variables"
    places = {
        "ssh": "a command over ssh",
        "login": "a login shell",
        "cron": "a cron job",
        "systemd": "a systemd unit",
    }
    for where, place in places.items():
        variable = f"probe/environment/{where}/XLA_FLAGS"
        yield State(check, f"{place} lacks it", {variable: None}, (f"{place} lacks XLA_FLAGS",))
        other = {variable: "--xla_gpu_cuda_data_dir=/usr/local/cuda"}
        yield State(check, f"{place} differs", other, (f"{place} differs in XLA_FLAGS",))
    yield State(
        check,
        "the lock wants another place of libdevice",
        {"row/gpu_env/xla_cuda_data_dir": "/usr/local/cuda-11.2"},
        tuple(f"{place} differs in XLA_FLAGS" for place in places.values()),
    )
    yield State(
        check,
        "the user wants a directory in PATH",
        {"options/gpu_env_path": ["/opt/tools"]},
        tuple(f"{place} lacks /opt/tools in PATH" for place in places.values()),
    )
    yield State(
        check,
        "the user wants a variable",
        {"options/gpu_env_variables": {"TF_CPP_MIN_LOG_LEVEL": "1"}},
        tuple(f"{place} lacks TF_CPP_MIN_LOG_LEVEL" for place in places.values()),
    )
