#include "inner/trainer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "tests/inner/support/memory_tokens.hpp"
#include "tests/inner/support/models.hpp"

namespace isthmus::inner {
namespace {

struct Fixture {
    ModelConfig model = testing::all_models()[1].config;
    TrainConfig train;
    OptimConfig optim;
    testing::MemoryTokens data = testing::cycle_tokens(20000, 37, 9);
    Fixture() {
        train.steps = 30;
        train.batch = 4;
        train.threads = 1;
        train.emulate_bf16 = true;
        optim.lr = 1e-2;
        optim.warmup_steps = 5;
    }
    std::unique_ptr<Trainer> make() { return Trainer::create(model, train, optim, data); }
};

std::vector<float> all_parameters(Trainer& trainer) {
    std::vector<float> all;
    for (std::uint32_t u = 0; u < trainer.layout().units.size(); ++u) {
        const auto values = trainer.parameters(UnitId(u));
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

TEST(Trainer, LearnsInEveryFamilyAndType) {
    for (const std::string dtype : {"fp32", "bf16"}) {
        for (const auto& [name, model] : testing::all_models()) {
            Fixture setup;
            setup.model = model;
            setup.train.dtype = dtype;
            setup.train.steps = 60;
            const auto trainer = setup.make();
            const double before = trainer->evaluate(Split::kValidation, 16);
            for (int i = 0; i < 60; ++i) trainer->step();
            const double after = trainer->evaluate(Split::kValidation, 16);
            EXPECT_NEAR(before, std::log(37.0), 0.2) << name << " " << dtype;
            EXPECT_LT(after, 2.2) << name << " " << dtype;  // 10 % noise leaves about 0.7
        }
    }
}

TEST(Trainer, SameSeedSameBitsAndAnotherSeedOthers) {
    Fixture setup;
    std::vector<float> first;
    for (int run = 0; run < 3; ++run) {
        setup.train.seed = run == 2 ? 2 : 1;
        const auto trainer = setup.make();
        for (int i = 0; i < 5; ++i) trainer->step();
        const auto parameters = all_parameters(*trainer);
        if (run == 0) first = parameters;
        EXPECT_EQ(same_bits(first, parameters), run != 2);
    }
}

TEST(Trainer, ASetStepCountMovesTheLearningRateAlone) {
    Fixture setup;
    const auto jumps = setup.make();
    jumps->step();
    jumps->set_steps_done(20);
    EXPECT_EQ(jumps->updates(), 1) << "the moments have seen one";
    const StepReport report = jumps->step();
    EXPECT_EQ(report.step, 21);
    EXPECT_EQ(report.learning_rate, learning_rate(setup.optim, 20, setup.train.steps));
    EXPECT_EQ(jumps->updates(), 2);
}

TEST(Trainer, ParametersMomentsAndTheirCountAreAllOfItsState) {
    Fixture setup;
    const auto from = setup.make();
    for (int i = 0; i < 4; ++i) from->step();
    SampleNumber next = from->position();
    const auto to = Trainer::create(setup.model, setup.train, setup.optim, setup.data,
                                    [&next](std::span<SampleNumber> out) {
                                        for (SampleNumber& n : out)
                                            n = std::exchange(next, SampleNumber(next.value + 1));
                                    });
    const auto copy = [](std::span<const float> a, std::span<float> b) {
        std::copy(a.begin(), a.end(), b.begin());
    };
    for (std::uint32_t u = 0; u < from->layout().units.size(); ++u) {
        copy(from->parameters(UnitId(u)), to->parameters(UnitId(u)));
        copy(from->first_moments(UnitId(u)), to->first_moments(UnitId(u)));
        copy(from->second_moments(UnitId(u)), to->second_moments(UnitId(u)));
    }
    to->set_updates(from->updates());
    to->set_steps_done(from->steps_done());
    to->parameters_changed();
    for (int i = 0; i < 3; ++i) {
        from->step();
        to->step();
    }
    EXPECT_TRUE(same_bits(all_parameters(*from), all_parameters(*to)));
}

TEST(Trainer, RecomputationChangesNoBitAndNeedsLessMemory) {
    for (const std::string dtype : {"fp32", "bf16"}) {
        for (const auto& [name, model] : testing::all_models()) {
            Fixture setup;
            setup.model = model;
            setup.train.dtype = dtype;
            const auto whole = setup.make();
            setup.train.recompute = true;
            const auto again = setup.make();
            for (int i = 0; i < 3; ++i) EXPECT_EQ(whole->step().loss, again->step().loss) << name;
            EXPECT_TRUE(same_bits(all_parameters(*whole), all_parameters(*again))) << name;
            EXPECT_LT(again->memory().arena_bytes, whole->memory().arena_bytes) << name;
        }
    }
}

TEST(Trainer, AccumulationOfEqualMicroBatchesIsTheWholeBatch) {
    Fixture setup;
    setup.train.batch = 8;
    const auto whole = setup.make();
    setup.train.batch = 2;
    setup.train.accumulate = 4;
    const auto parts = setup.make();
    const StepReport a = whole->step(), b = parts->step();
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_NEAR(a.loss, b.loss, 1e-5);
    for (std::uint32_t u = 0; u < whole->layout().units.size(); ++u) {
        const auto g = whole->gradients(UnitId(u)), h = parts->gradients(UnitId(u));
        float largest = 0;
        for (const float x : g) largest = std::max(largest, std::abs(x));
        for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], h[i], 1e-5f * largest);
    }
}

TEST(Trainer, EvaluationDoesNotDisturbTraining) {
    Fixture setup;
    const auto plain = setup.make(), evaluated = setup.make();
    for (int i = 0; i < 4; ++i) {
        plain->step();
        evaluated->evaluate(Split::kValidation, 3);
        evaluated->step();
    }
    EXPECT_TRUE(same_bits(all_parameters(*plain), all_parameters(*evaluated)));
}

TEST(Trainer, StateCopiedIntoAnotherTrainerGoesOnWithTheSameBits) {
    Fixture setup;
    const auto whole = setup.make();
    for (int i = 0; i < 3; ++i) whole->step();
    const auto again = setup.make();
    for (int i = 0; i < 3; ++i) again->step();
    for (std::uint32_t u = 0; u < whole->layout().units.size(); ++u) {
        const auto copy = [&](std::span<float> from, std::span<float> to) {
            std::copy(from.begin(), from.end(), to.begin());
        };
        std::fill(again->parameters(UnitId(u)).begin(), again->parameters(UnitId(u)).end(), 0.0f);
        copy(whole->parameters(UnitId(u)), again->parameters(UnitId(u)));
        copy(whole->first_moments(UnitId(u)), again->first_moments(UnitId(u)));
        copy(whole->second_moments(UnitId(u)), again->second_moments(UnitId(u)));
    }
    again->parameters_changed();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(whole->step().loss, again->step().loss);
    EXPECT_TRUE(same_bits(all_parameters(*whole), all_parameters(*again)));
}

TEST(Trainer, NotFiniteGradientsSkipTheStepAndThreeStopTheRun) {
    Fixture setup;
    const auto trainer = setup.make();
    trainer->step();
    const UnitId block = trainer->layout().block(1);
    const auto before = all_parameters(*trainer);
    const float kept = trainer->parameters(block)[0];
    trainer->parameters(block)[0] = std::numeric_limits<float>::infinity();
    trainer->parameters_changed();
    const StepReport report = trainer->step();
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(trainer->skipped_steps(), 1);
    trainer->parameters(block)[0] = kept;
    EXPECT_TRUE(same_bits(before, all_parameters(*trainer)));
    trainer->parameters_changed();
    EXPECT_FALSE(trainer->step().skipped);

    trainer->parameters(block)[0] = std::nanf("");
    trainer->parameters_changed();
    trainer->step();
    trainer->step();
    try {
        trainer->step();
        FAIL() << "a third skipped step must stop the run";
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kDiverged);
        EXPECT_NE(std::string(error.what()).find("block.1"), std::string::npos) << error.what();
    }
}

TEST(Trainer, RefusesWhatCannotWork) {
    const auto message = [](Fixture& setup) -> std::string {
        try {
            setup.make();
        } catch (const Fatal& error) {
            return error.what();
        }
        return "accepted";
    };
    Fixture longer;
    longer.train.sequence = 25;
    EXPECT_NE(message(longer).find("longer than model.context = 24"), std::string::npos);
    Fixture vocabulary;
    vocabulary.data = testing::cycle_tokens(1000, 64, 1);
    EXPECT_NE(message(vocabulary).find("set model.vocab to at least 64"), std::string::npos);
    Fixture short_text;
    short_text.data = testing::cycle_tokens(26, 37, 1);
    EXPECT_NE(message(short_text).find("fewer than one window of 25"), std::string::npos);
}

TEST(Trainer, PredictsTheMemoryItPlans) {
    Fixture setup;
    EXPECT_EQ(Trainer::predict(setup.model, setup.train, setup.optim).arena_bytes,
              setup.make()->memory().arena_bytes);
}

}  // namespace
}  // namespace isthmus::inner
