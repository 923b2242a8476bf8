// The CPU backend of the op contract: oneDNN for GEMMs, our own vector kernels for the rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "inner/ops/ops.hpp"

namespace isthmus::inner {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

struct CpuFeatures {
    InstructionSet best = InstructionSet::kBaseline;
    bool avx512_bf16 = false;
    bool amx_bf16 = false;
    std::string model_name;  ///< as in /proc/cpuinfo
    int cores = 0;           ///< this process may run on (affinity and cgroup)
};
CpuFeatures detect_cpu();
std::string to_string(InstructionSet);
/// The instruction sets this processor can run, slowest first: what tests iterate over.
std::vector<InstructionSet> available_instruction_sets();

struct CpuOptions {
    int threads = 1;
    InstructionSet instruction_set = InstructionSet::kBaseline;  ///< at most detect_cpu().best
    /// bf16 GEMMs without hardware for them: computed in fp32 on rounded inputs. For tests.
    bool emulate_bf16 = false;
};

/// ERRORS  throws Fatal(kResources) when the instruction set is beyond this processor.
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions&);

/// Whether bf16 GEMMs run in hardware here. When false and not emulated, bf16 is refused by the
/// trainer.
bool cpu_has_bf16();

}  // namespace isthmus::inner
