// Ranges of the fragment across units, and the inner state as bytes.
#include "launch/model_port.hpp"

#include <gtest/gtest.h>

#include "tests/launch/support/fake_trainer.hpp"

namespace isthmus::launch {
namespace {

constexpr FragmentId kAll{0};

TEST(TrainerPort, UnitsStandOneAfterTheOther) {
    test::FakeTrainer trainer;
    TrainerPort port(trainer);
    EXPECT_EQ(port.num_fragments(), 1u);
    EXPECT_EQ(port.unit_elements(kAll), (std::vector<std::int64_t>{4, 3}));
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7};
    port.write(kAll, 0, values);
    EXPECT_EQ(trainer.parameters(UnitId(0))[3], 4.0f);
    EXPECT_EQ(trainer.parameters(UnitId(1))[0], 5.0f);
}

TEST(TrainerPort, EveryRangeReadsWhatWasWrittenThere) {
    test::FakeTrainer trainer;
    TrainerPort port(trainer);
    std::vector<float> expected(7, 0.0f);
    float next = 1;
    for (std::int64_t offset = 0; offset <= 7; ++offset) {
        for (std::int64_t count = 0; offset + count <= 7; ++count) {
            std::vector<float> part;
            for (std::int64_t i = 0; i < count; ++i) {
                part.push_back(next++);
                expected[static_cast<std::size_t>(offset + i)] = part.back();
            }
            port.write(kAll, offset, part);
            std::vector<float> whole(7), again(static_cast<std::size_t>(count));
            port.read(kAll, 0, whole);
            port.read(kAll, offset, again);
            EXPECT_EQ(whole, expected);
            EXPECT_EQ(again, part);
        }
    }
}

TEST(TrainerPort, SaysOnceThatParametersWereWritten) {
    test::FakeTrainer trainer;
    TrainerPort port(trainer);
    EXPECT_FALSE(port.take_written());
    port.written();
    EXPECT_TRUE(port.take_written());
    EXPECT_FALSE(port.take_written());
}

TEST(TrainerPort, InnerStateMovesToAnotherTrainer) {
    test::FakeTrainer from, to;
    for (std::uint32_t u = 0; u < 2; ++u) {
        float value = 10.0f * static_cast<float>(u + 1);
        for (float& x : from.first_moments(UnitId(u))) x = value++;
        for (float& x : from.second_moments(UnitId(u))) x = -value++;
    }
    from.set_updates(123);
    TrainerPort source(from), target(to);
    ASSERT_EQ(source.inner_state_bytes(), 8 + 2 * 7 * 4);
    std::vector<std::byte> bytes(static_cast<std::size_t>(source.inner_state_bytes()));
    source.read_inner_state(bytes);
    target.write_inner_state(bytes);
    EXPECT_EQ(to.updates(), 123);
    for (std::uint32_t u = 0; u < 2; ++u) {
        const auto same = [](std::span<float> a, std::span<float> b) {
            return std::equal(a.begin(), a.end(), b.begin(), b.end());
        };
        EXPECT_TRUE(same(from.first_moments(UnitId(u)), to.first_moments(UnitId(u))));
        EXPECT_TRUE(same(from.second_moments(UnitId(u)), to.second_moments(UnitId(u))));
    }
}

}  // namespace
}  // namespace isthmus::launch
