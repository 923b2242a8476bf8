#include "inner/data/order.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace isthmus::inner {
namespace {

std::vector<std::uint64_t> epoch_order(const DataOrder& order, std::uint64_t epoch) {
    std::vector<std::uint64_t> windows;
    for (std::uint64_t i = 0; i < order.windows(); ++i) {
        const auto place = order.at(SampleNumber(epoch * order.windows() + i));
        EXPECT_EQ(place.epoch, epoch);
        windows.push_back(place.window);
    }
    return windows;
}

TEST(DataOrder, EveryEpochVisitsEveryWindowOnce) {
    std::vector<std::uint64_t> counts{1000, 257, 9973, 65537};
    for (std::uint64_t n = 1; n <= 40; ++n) counts.push_back(n);
    for (int bits = 6; bits <= 16; bits += 2)
        for (int off : {-1, 0, 1})
            counts.push_back((std::uint64_t{1} << bits) + static_cast<std::uint64_t>(off));
    for (const std::uint64_t count : counts) {
        const DataOrder order(count, 7);
        for (const std::uint64_t epoch :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{12345}}) {
            std::vector<int> seen(count);
            for (const std::uint64_t window : epoch_order(order, epoch)) {
                ASSERT_LT(window, count);
                ++seen[window];
            }
            for (const int times : seen) ASSERT_EQ(times, 1) << count << " windows";
        }
    }
}

TEST(DataOrder, OrderDiffersByEpochAndSeedAndIsTheSameOnRepeat) {
    const DataOrder order(1000, 1);
    EXPECT_EQ(epoch_order(order, 0), epoch_order(DataOrder(1000, 1), 0));
    const DataOrder other(1000, 2);
    const std::vector<std::vector<std::uint64_t>> orders{
        epoch_order(order, 0), epoch_order(order, 1), epoch_order(order, 2), epoch_order(other, 0),
        epoch_order(other, 1)};
    for (std::size_t a = 0; a < orders.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
            int same = 0;  // two random orders agree in one place on average
            for (std::size_t i = 0; i < 1000; ++i) same += orders[a][i] == orders[b][i];
            EXPECT_LT(same, 10) << a << " and " << b;
        }
    }
}

// A run that is resumed by a later build must go on in the order that it began.
TEST(DataOrder, NeverChangesBetweenBuilds) {
    const DataOrder order(1000, 42);
    std::vector<std::uint64_t> first;
    for (std::uint64_t i = 0; i < 8; ++i) first.push_back(order.at(SampleNumber(i)).window);
    EXPECT_EQ(first, (std::vector<std::uint64_t>{831, 136, 593, 756, 271, 576, 802, 164}));
}

// Over many epochs each window comes at each place equally often. The statistic has 15 * 15 degrees
// of freedom: mean 225, deviation 21; the bound is five deviations off, and the seeds are fixed.
TEST(DataOrder, PlacesAreUniform) {
    constexpr std::uint64_t kWindows = 16, kEpochs = 4000;
    const DataOrder order(kWindows, 3);
    std::vector<std::vector<double>> counts(kWindows, std::vector<double>(kWindows));
    for (std::uint64_t i = 0; i < kWindows * kEpochs; ++i)
        ++counts[i % kWindows][order.at(SampleNumber(i)).window];
    const double expected = static_cast<double>(kEpochs) / kWindows;
    double chi_square = 0;
    for (const auto& row : counts)
        for (const double count : row)
            chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_GT(chi_square, 225 - 5 * 21.3);
    EXPECT_LT(chi_square, 225 + 5 * 21.3);
}

// Neighbours in the order are no neighbours in the file: the mean distance of two random windows is
// n/3.
TEST(DataOrder, NeighboursAreFarApart) {
    constexpr std::uint64_t kWindows = 100000;
    const auto windows = epoch_order(DataOrder(kWindows, 5), 0);
    double distance = 0;
    for (std::size_t i = 1; i < windows.size(); ++i)
        distance += std::abs(static_cast<double>(windows[i]) - static_cast<double>(windows[i - 1]));
    EXPECT_NEAR(distance / kWindows / (kWindows / 3.0), 1.0, 0.01);
}

TEST(DataOrder, HugeCountsWork) {
    for (const std::uint64_t windows :
         {std::uint64_t{1} << 40, (std::uint64_t{1} << 40) + 1, ~std::uint64_t{0}}) {
        const DataOrder order(windows, 9);
        std::vector<std::uint64_t> drawn;
        for (std::uint64_t i = 0; i < 1000; ++i) {
            const auto place = order.at(SampleNumber(i));
            ASSERT_LT(place.window, windows);
            drawn.push_back(place.window);
        }
        std::sort(drawn.begin(), drawn.end());
        EXPECT_EQ(std::adjacent_find(drawn.begin(), drawn.end()), drawn.end());
    }
    const auto last = DataOrder(std::uint64_t{1} << 40, 9).at(SampleNumber(~std::uint64_t{0}));
    EXPECT_EQ(last.epoch, (std::uint64_t{1} << 24) - 1);
}

}  // namespace
}  // namespace isthmus::inner
