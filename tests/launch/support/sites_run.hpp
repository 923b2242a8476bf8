// What tests of runs of several sites start from.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/files.hpp"
#include "inner/data/prepare.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::test {

/// A folder with data and room for the configuration of a run of several tiny sites.
class SitesRun : public testing::Test {
  protected:
    void SetUp() override {
        std::ofstream text(folder_.path() / "text.txt");
        for (int i = 0; i < 4000; ++i) text << "line " << i * i << " of many\n";
        text.close();
        inner::PrepareOptions prepare;
        prepare.inputs = {folder_.path() / "text.txt"};
        prepare.out = folder_.path() / "data";
        inner::prepare(*files_, prepare);
    }
    Path write_config(std::int64_t steps, const std::string& outer) {
        const Path file = folder_.path() / "run.toml";
        std::ofstream(file)
            << "data = \"" << (folder_.path() / "data").string() << "\"\n"
            << "run_folder = \"" << run_.string() << "\"\n"
            << "[model]\npreset = \"custom\"\nfamily = \"llama\"\nvocab = 256\n"
               "d_model = 32\nnum_layers = 2\nnum_heads = 2\nnum_kv_heads = 2\n"
               "ffn_dim = 64\ncontext = 32\n"
            << "[train]\nsteps = " << steps
            << "\nbatch = 3\nthreads = 2\naccumulate = 2\neval_every = 0\neval_windows = 2\n"
            << "[optim]\nwarmup_steps = 3\n[outer]\n"
            << outer;
        return file;
    }

    TemporaryFolder folder_;
    Path run_ = folder_.path() / "run";
    std::unique_ptr<FileSystem> files_ = posix_files();
};

}  // namespace isthmus::test
