"""Build hook: compiles the kernel (`darrm_opt.design.kernel`) where there is a C compiler.

The kernel is plain C without Python's headers and is loaded by ctypes, so that one wheel serves every Python of a
platform. Without a compiler the wheel holds no library, serves every platform, and NumPy does the same searches,
slower.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

FOLDER = Path("darrm_opt/design/kernel")
LIBRARY = FOLDER / "kernel.so.1"

# What the rounding bounds rest on stands in kernel.h; nothing here may imply -ffast-math.
FLAGS = [
    *("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-ffinite-math-only", "-fno-signed-zeros", "-fPIC", "-shared", "-fvisibility=hidden"),
]
VARIANTS: tuple[list[str], ...] = (["-DKERNEL_CLONES", "-Wl,--build-id=none"], [])
"""Tried in turn: a second copy of the inner loops for AVX2 needs a linker and a C library that choose at load time."""


class KernelHook(BuildHookInterface[Any]):
    """Compiles the kernel beside its source and adds it to the wheel; warns and goes on where that fails."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform if there is a library."""
        del version
        root = Path(self.root)
        if compile_kernel(root):
            build_data["artifacts"].append(f"/{LIBRARY}")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag(root / LIBRARY)}"
        else:
            (root / LIBRARY).unlink(missing_ok=True)  # of an earlier build
            self.app.display_warning("no C compiler: the wheel has no separation kernel, and NumPy will search")


def platform_tag(library: Path) -> str:
    """Return the tag of the oldest systems that can load a library that needs the C library alone (PEP 600, PEP 656).

    glibc keeps its symbols for ever, so the newest version among those it needs is the system's least.
    """
    native, *others = platform_tags()
    content = library.read_bytes()
    minors = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", content)]
    if not minors or b"GLIBC_ABI_" in content:  # musl, or a feature of the loader: as new as the system here
        return next(iter(others), native)
    return f"manylinux_2_{max(17, *minors)}_{native.removeprefix('linux_')}"  # 2.17 is the least on all processors


def compile_kernel(root: Path) -> bool:
    """Compile the kernel in a source tree; return whether there is a library now."""
    if sys.platform != "linux" or os.environ.get("DARRM_BUILD_KERNEL") == "0":
        return False
    compiler = shlex.split(os.environ.get("CC", "")) or [next(filter(shutil.which, ("cc", "gcc", "clang")), "")]
    if not shutil.which(compiler[0]):
        return False
    library = root / LIBRARY
    beside = library.with_name(f"{library.name}.{os.getpid()}")
    sources = sorted((root / FOLDER).glob("*.[ch]"))
    checksum = zlib.crc32(b"".join(each.read_bytes() for each in sources))  # library.py compares it
    units = [str(each) for each in sources if each.suffix == ".c"]
    for variant in VARIANTS:
        command = [*compiler, *FLAGS, *variant, f"-DSOURCE_CHECKSUM={checksum}u", *units, "-o", str(beside), "-lm"]
        if subprocess.run(command, cwd=root, check=False, capture_output=True).returncode == 0:  # noqa: S603 - the user's compiler
            beside.replace(library)
            return True
    beside.unlink(missing_ok=True)
    return False
