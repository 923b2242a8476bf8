// Everything that reads bytes of others, behind one entry point for a fuzzer.
//
// The first byte of an input chooses the decoder, the rest is what it is given. Whatever is taken
// is written again and must give the same bytes: nothing is ignored, and nothing has two spellings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace isthmus::test {

/// Inputs that are taken, one of each kind, with names for their files.
std::vector<std::pair<std::string, std::vector<std::uint8_t>>> seed_inputs();

/// How many inputs some decoder has taken so far.
std::uint64_t inputs_taken();

}  // namespace isthmus::test
