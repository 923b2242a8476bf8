// The fuzzer's entry point over its corpus and over seeded mutations of it: what a run of libFuzzer
// does, shorter, with any compiler.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "tests/fuzz/decoders.hpp"

namespace isthmus::test {
namespace {

using Input = std::vector<std::uint8_t>;
const std::filesystem::path kCorpus = ISTHMUS_SOURCE_DIR "/tests/fuzz/corpus";

Input read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
std::vector<Input> corpus() {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(kCorpus))
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<Input> inputs;
    for (const auto& path : paths) inputs.push_back(read(path));
    return inputs;
}
void feed(const Input& input) {
    // A copy of exactly its size, so that the address sanitizer sees the first byte too far.
    const auto copy = std::make_unique<std::uint8_t[]>(input.size());
    std::copy(input.begin(), input.end(), copy.get());
    LLVMFuzzerTestOneInput(copy.get(), input.size());
}

/// One of what libFuzzer does to an input.
void mutate(Input& input, const std::vector<Input>& inputs, std::mt19937_64& random) {
    const auto place = [&](std::size_t extra) {
        return input.begin() + static_cast<std::ptrdiff_t>(random() % (input.size() + extra));
    };
    if (input.empty()) input.push_back(0);
    switch (random() % 7) {
        case 0:
            *place(0) ^= static_cast<std::uint8_t>(1u << random() % 8);
            break;
        case 1:
            *place(0) = static_cast<std::uint8_t>(random());
            break;
        case 2:
            input.erase(place(0), input.end());
            break;
        case 3:
            input.insert(place(1), 1 + random() % 8, static_cast<std::uint8_t>(random()));
            break;
        case 4:
            input.erase(place(0));
            break;
        case 5: {  // a number that is large, or just below zero
            const std::uint64_t values[] = {~0ull, 0x7fffffffull, 0x80000000ull, 1ull << 63, 256};
            const std::uint64_t value = values[random() % std::size(values)];
            for (std::size_t i = 0, at = random() % input.size(); i < 4 && at + i < input.size();
                 ++i)
                input[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
            break;
        }
        default: {  // the end of another
            const Input& other = inputs[random() % inputs.size()];
            if (other.empty()) break;
            input.erase(place(0), input.end());
            input.insert(input.end(),
                         other.begin() + static_cast<std::ptrdiff_t>(random() % other.size()),
                         other.end());
        }
    }
}

TEST(DecodeFuzz, TheCorpusHoldsTheSeedsAndAllAreTaken) {
    for (const auto& [name, bytes] : seed_inputs()) {
        EXPECT_EQ(read(kCorpus / name), bytes)
            << name << " has changed: build write_corpus and run it on tests/fuzz/corpus";
        const std::uint64_t before = inputs_taken();
        feed(bytes);
        EXPECT_GT(inputs_taken(), before) << name;
    }
    for (const Input& input : corpus()) feed(input);
}

TEST(DecodeFuzz, MutationsOfTheCorpusAreTakenWholeOrRefused) {
    const auto inputs = corpus();
    ASSERT_FALSE(inputs.empty());
    std::mt19937_64 random(1);
    const std::uint64_t before = inputs_taken();
    for (int i = 0; i < 20000; ++i) {
        Input input = inputs[random() % inputs.size()];
        for (auto n = 1 + random() % 4; n > 0; --n) mutate(input, inputs, random);
        feed(input);
    }
    // Changed numbers are still records: mutations that are all refused would test nothing.
    EXPECT_GT(inputs_taken() - before, 1000u);
}

}  // namespace
}  // namespace isthmus::test
