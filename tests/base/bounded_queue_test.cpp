#include "base/bounded_queue.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace isthmus {
namespace {

using namespace std::chrono_literals;
constexpr auto kSoon = 20s;

TEST(BoundedQueue, FirstInFirstOut) {
    BoundedQueue<int> queue(3);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.push_within(int(i), 0ms), Push::kDone);
    EXPECT_EQ(queue.size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop_within(0ms), i);
    EXPECT_EQ(queue.pop_within(1ms), std::nullopt);
}

TEST(BoundedQueue, AFullQueueLeavesTheValueWithItsOwner) {
    BoundedQueue<std::unique_ptr<int>> queue(1);
    EXPECT_EQ(queue.push_within(std::make_unique<int>(1), 0ms), Push::kDone);
    auto second = std::make_unique<int>(2);
    EXPECT_EQ(queue.push_within(second, 1ms), Push::kFull);
    ASSERT_TRUE(second);
    queue.close();
    EXPECT_EQ(queue.push_within(second, kSoon), Push::kClosed);
    ASSERT_TRUE(second);
}

TEST(BoundedQueue, CloseLetsTheRestOutThenEnds) {
    BoundedQueue<int> queue(2);
    EXPECT_EQ(queue.push_within(7, 0ms), Push::kDone);
    queue.close();
    EXPECT_TRUE(queue.closed());
    EXPECT_EQ(queue.pop_within(kSoon), 7);
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(queue.pop_within(kSoon), std::nullopt);
    EXPECT_LT(std::chrono::steady_clock::now() - before, kSoon / 2) << "closed and empty waits";
}

TEST(BoundedQueue, CloseWakesBothSides) {
    BoundedQueue<int> empty(1), full(1);
    EXPECT_EQ(full.push_within(1, 0ms), Push::kDone);
    std::jthread consumer([&] { EXPECT_EQ(empty.pop_within(kSoon), std::nullopt); });
    std::jthread producer([&] { EXPECT_EQ(full.push_within(2, kSoon), Push::kClosed); });
    empty.close();
    full.close();
}

TEST(BoundedQueue, NothingIsLostBetweenManyThreads) {
    constexpr int kThreads = 3, kEach = 2000;
    BoundedQueue<int> queue(4);
    std::vector<std::vector<int>> got(kThreads);
    {
        std::vector<std::jthread> consumers, producers;
        for (int t = 0; t < kThreads; ++t) {
            consumers.emplace_back([&, t] {
                while (auto value = queue.pop_within(kSoon)) got[t].push_back(*value);
            });
            producers.emplace_back([&, t] {
                for (int i = 0; i < kEach; ++i)
                    EXPECT_EQ(queue.push_within(t * kEach + i, kSoon), Push::kDone);
            });
        }
        producers.clear();  // joins
        queue.close();
    }
    std::vector<int> seen(kThreads * kEach);
    for (const auto& values : got)
        for (const int value : values) ++seen[static_cast<std::size_t>(value)];
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), kThreads * kEach);
}

}  // namespace
}  // namespace isthmus
