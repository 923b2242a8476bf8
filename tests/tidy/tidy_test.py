#!/usr/bin/env python3
"""Each rule of tidy.py finds what it is for: a check that cannot fail checks nothing."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy  # noqa: E402


def text_findings(name, text):
    findings = tidy.Findings()
    path, lines = pathlib.Path(name), text.split("\n")
    tidy.check_text(path, lines, findings)
    tidy.check_includes(path, lines, findings)
    return findings.all


class Rules(unittest.TestCase):
    def expect(self, name, text, part):
        found = text_findings(name, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_include_table(self):
        self.expect("inner/a.cpp", '#include "outer/b.hpp"', "inner/a.cpp:1: inner/ must not include outer/")
        self.expect("base/a.cpp", '\n#include "net/b.hpp"', "base/a.cpp:2:")
        self.expect("inner/a.cpp", '#include "b.hpp"', "from the top folder")
        for name, target in [("outer", "net"), ("launch", "outer"), ("tests", "inner"), ("net", "net")]:
            self.assertEqual(text_findings(f"{name}/a.cpp", f'#include "{target}/b.hpp"'), [])

    def test_vendor_headers(self):
        self.expect("net/link.hpp", "#include <zmq.hpp>", "belongs in a .cpp file")
        self.expect("inner/cpu/onednn.hpp", "#include <nlohmann/json.hpp>", "belongs in a .cpp file")
        self.assertEqual(text_findings("net/link.cpp", "#include <zmq.hpp>"), [])
        self.assertEqual(text_findings("inner/cpu/onednn.hpp", "#include <dnnl.hpp>"), [])

    def test_text(self):
        self.expect("base/a.cpp", "int\ta;", "a tab")
        self.expect("base/a.cpp", "int a; ", "white space at the end")
        self.expect("base/a.cpp", "// " + "x" * 98, "101 columns")
        self.expect("base/a.cpp", "// TO" + "DO later", "a leftover")
        self.expect("base/a.cpp", "<" * 7 + " HEAD", "unfinished")
        self.expect("cmake/a.cmake", "-ffast" + "-math", "changes results")

    def test_whole_tree(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "base").mkdir()
            (root / "base" / "a.cpp").write_text("int  a;\n")
            done = subprocess.run([sys.executable, tidy.__file__, name], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("base: has no README.md", done.stdout)

    def test_weak_symbols_of_avx_objects(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "CMakeCache.txt").write_text("CMAKE_BUILD_TYPE:STRING=Release\n")
            code = "inline int leak(int a) { return a + 1; } int (*use)(int) = leak;"
            (root / "a.cpp").write_text(code)
            commands = []
            for isa in ["-mavx2", "-msse2"]:  # the second is every processor's
                command = f"c++ -O2 {isa} -c a.cpp -o a{isa}.o"
                subprocess.run(command.split(), cwd=root, check=True)
                commands.append({"command": command})
            (root / "compile_commands.json").write_text(json.dumps(commands))
            findings = tidy.Findings()
            with contextlib.redirect_stdout(io.StringIO()):
                tidy.check_isa_objects(root, findings)
            self.assertEqual(len(findings.all), 1)
            self.assertIn("weak symbol leak(int)", findings.all[0])


if __name__ == "__main__":
    unittest.main()
