#include "launch/model_port.hpp"

#include <gtest/gtest.h>

#include "tests/launch/support/fake_trainer.hpp"

namespace isthmus::launch {
namespace {

TEST(TrainerPort, UnitsStandOneAfterTheOther) {
    test::FakeTrainer trainer;
    TrainerPort port(trainer);
    EXPECT_EQ(port.num_fragments(), 1u);
    ASSERT_EQ(port.fragment_elements(FragmentId(0)), 4);
    const std::vector<float> values{1, 2, 3, 4};
    port.write(FragmentId(0), values);
    std::vector<float> out(4);
    port.read(FragmentId(0), out);
    EXPECT_EQ(out, values);
    EXPECT_EQ(trainer.parameters(UnitId(0))[2], 3.0f);
}

}  // namespace
}  // namespace isthmus::launch
