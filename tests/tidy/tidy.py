#!/usr/bin/env python3
"""House rules that a program can check: python3 tests/tidy/tidy.py SOURCE_DIR [BUILD_DIR].

Every finding is one line, FILE:LINE: what. Exit status 1 if there is any.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

# DESIGN.md, "Folders, and what may include what". A folder may always include itself.
FOLDERS = ["base", "net", "checkpoint", "inner", "outer", "launch", "experiments", "tests"]
MAY_INCLUDE = {
    "base": set(),
    "net": {"base"},
    "checkpoint": {"base"},
    "inner": {"base"},
    "outer": {"base", "net"},
    "launch": set(FOLDERS),
    "experiments": set(FOLDERS),
    "tests": set(FOLDERS),
}
# A vendor's headers appear in .cpp files, or in the one wrapper header named here.
VENDOR = re.compile(
    r"<((zmq|zmq_addon)\.h(pp)?|dnnl|oneapi/|toml\+\+/|nlohmann/|CLI/|spdlog/|cereal/|boost/|sodium|"
    r"zlib\.h|zstd|xxhash\.h|cuda|cublas|cudnn|nccl|omp\.h)")
WRAPPERS = {"base/record.hpp": "cereal/", "inner/cpu/onednn.hpp": "dnnl", "inner/cpu/parallel.hpp": "omp.h",
            "tests/inner/data/support/data_fixture.hpp": ("zlib.h", "zstd")}
# Text that does not say anything about the code any more, or never should be there.
FORBIDDEN = [
    (re.compile(r"^(<<<<<<<|>>>>>>>)( |$)"), "a merge was committed unfinished"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "a leftover: finish it or write it in the issue"),
    (re.compile(r"-ffast-math|-Ofast|-funsafe-math"), "changes results silently"),
]
MAX_COLUMNS = 100
MAX_LINES = 450
CODE = {".cpp", ".hpp", ".cu", ".cuh"}
TEXT = CODE | {".txt", ".cmake", ".py", ".sh", ".toml"}


class Findings:
    def __init__(self):
        self.all = []

    def add(self, path, line, what):
        self.all.append(f"{path}:{line}: {what}" if line else f"{path}: {what}")


def tracked(source):
    """Files that git knows or would add; without git, all of the named folders."""
    try:
        out = subprocess.run(
            ["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True).stdout.decode()
        paths = [pathlib.Path(p) for p in out.split("\0") if p]
    except (OSError, subprocess.CalledProcessError):
        roots = FOLDERS + ["cmake", "scripts", "CMakeLists.txt"]
        paths = []
        for root in roots:
            top = source / root
            found = [top] if top.is_file() else top.rglob("*")
            paths += [p.relative_to(source) for p in found if p.is_file()]
    return sorted(p for p in set(paths) if (source / p).is_file())


def check_text(path, lines, findings):
    for number, line in enumerate(lines, 1):
        if "\t" in line and path.name != "Makefile":
            findings.add(path, number, "a tab")
        if line != line.rstrip():
            findings.add(path, number, "white space at the end")
        # CMake's generator lines and long addresses have no place to break.
        if len(line) > MAX_COLUMNS and path.suffix in CODE and "http" not in line:
            findings.add(path, number, f"{len(line)} columns, {MAX_COLUMNS} are allowed")
        if path.parts[:2] != ("tests", "tidy"):
            for pattern, why in FORBIDDEN:
                if pattern.search(line):
                    findings.add(path, number, f"{pattern.search(line).group()}: {why}")


def check_includes(path, lines, findings):
    folder = path.parts[0]
    for number, line in enumerate(lines, 1):
        ours = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if ours:
            target = ours.group(1).split("/")[0]
            if target in MAY_INCLUDE:
                if target != folder and target not in MAY_INCLUDE.get(folder, set()):
                    findings.add(path, number, f"{folder}/ must not include {target}/")
            elif target != "generated":
                findings.add(path, number, f'"{ours.group(1)}": name it from the top folder')
        vendor = re.match(r"\s*#\s*include\s+" + VENDOR.pattern, line)
        if vendor and path.suffix in {".hpp", ".cuh"}:
            allowed = WRAPPERS.get(str(path))
            if not allowed or not vendor.group(1).startswith(allowed):
                findings.add(path, number, f"<{vendor.group(1)}...> belongs in a .cpp file")


def check_folders(source, findings):
    for folder in FOLDERS:
        if (source / folder).is_dir() and not (source / folder / "README.md").is_file():
            findings.add(folder, 0, "has no README.md")


def check_format(source, paths, findings):
    if not shutil.which("clang-format"):
        print("SKIPPED: clang-format is not installed (scripts/deps.sh --tests installs it)")
        return
    code = [str(p) for p in paths if p.suffix in CODE]
    for start in range(0, len(code), 50):
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", *code[start:start + 50]],
                              cwd=source, capture_output=True, text=True, check=False)
        first_lines = {}
        for line in done.stderr.splitlines():
            found = re.match(r"(.+?):(\d+):\d+: error: ", line)
            if found:
                first_lines.setdefault(found[1], int(found[2]))
        for name, number in first_lines.items():
            findings.add(name, number, f"run clang-format -i {name}")
        if done.returncode != 0 and not done.stderr:
            findings.add("clang-format", 0, f"exit status {done.returncode}")


def check_isa_objects(build, findings):
    """A weak symbol compiled for AVX may be the one the linker keeps for everybody: a crash elsewhere."""
    flags = (build / "CMakeCache.txt").read_text() if (build / "CMakeCache.txt").is_file() else ""
    if "CMAKE_BUILD_TYPE:STRING=Release" not in flags or re.search(r"ISTHMUS_SANITIZE:\w+=\w", flags):
        print("SKIPPED: objects per instruction set are judged in plain release builds only")
        return
    objects = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = entry["command"].split()
        if any(word.startswith(("-mavx", "-mfma", "-mamx")) for word in words):
            objects.append(build / words[words.index("-o") + 1])
    objects = [p for p in objects if p.is_file()]
    for path in objects:
        out = subprocess.run(["nm", "-C", "--defined-only", str(path)], check=True,
                             capture_output=True, text=True).stdout
        for line in out.splitlines():
            fields = line.split(maxsplit=2)
            if len(fields) == 3 and fields[1] in "Ww":
                findings.add(path.relative_to(build), 0,
                             f"weak symbol {fields[2]} would leak into code for other processors")
    print(f"{len(objects)} objects for one instruction set")


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    findings = Findings()
    paths = tracked(source)
    long_files = []
    for path in paths:
        if path.suffix not in TEXT and path.name != "Makefile":
            continue
        lines = (source / path).read_text().split("\n")
        check_text(path, lines, findings)
        if path.suffix in CODE:
            check_includes(path, lines, findings)
            if len(lines) > MAX_LINES:
                long_files.append(f"{path} ({len(lines)} lines)")
    check_folders(source, findings)
    check_format(source, paths, findings)
    if len(sys.argv) > 2:
        check_isa_objects(pathlib.Path(sys.argv[2]).resolve(), findings)
    if long_files:
        print(f"WARNING: over {MAX_LINES} lines, look for the second idea in: {', '.join(long_files)}")
    for finding in findings.all:
        print(finding)
    print(f"{len(paths)} files, {len(findings.all)} findings")
    sys.exit(1 if findings.all else 0)


if __name__ == "__main__":
    main()
