#include "base/record.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <variant>

namespace isthmus {
namespace {

enum class Colour : std::uint8_t { kRed, kBlue };
constexpr Colour last_of(Colour) {
    return Colour::kBlue;
}

struct Leaf {
    std::uint16_t number = 0;
    std::string text;
    bool operator==(const Leaf&) const = default;
    template <class A>
    void serialize(A& a) {
        a(number, text);
    }
};
struct Nothing {
    bool operator==(const Nothing&) const = default;
    template <class A>
    void serialize(A&) {}
};
struct Tree {
    SiteId site;
    Round round;
    Colour colour = Colour::kRed;
    bool yes = false;
    double real = 0;
    std::array<std::byte, 5> fixed{};
    std::array<Leaf, 2> pair_of_leaves;
    std::optional<std::array<std::byte, 5>> maybe;
    std::variant<Leaf, Nothing, SiteId> either;
    std::vector<std::pair<std::string, std::string>> pairs;
    std::vector<std::byte> bytes;
    std::vector<float> floats;
    std::vector<SiteId> sites;
    std::vector<Leaf> leaves;
    std::vector<Nothing> nothings;
    bool operator==(const Tree&) const = default;
    template <class A>
    void serialize(A& a) {
        a(site, round, colour, yes, real, fixed, pair_of_leaves, maybe, either, pairs, bytes,
          floats, sites, leaves, nothings);
    }
};

Tree full_tree() {
    Tree t;
    t.site = SiteId(7);
    t.round = Round(1ull << 40);
    t.colour = Colour::kBlue;
    t.yes = true;
    t.real = -0.25;
    t.fixed = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{255}};
    t.pair_of_leaves = {Leaf{1, "one"}, Leaf{2, ""}};
    t.maybe = t.fixed;
    t.either = SiteId(9);
    t.pairs = {{"key", "value"}, {"", "x"}};
    t.bytes.assign(300, std::byte{17});
    t.floats = {1.5f, -std::numeric_limits<float>::infinity()};
    t.sites = {SiteId(3), SiteId(1)};
    t.leaves = {Leaf{65535, std::string("zero\0inside", 11)}};
    return t;
}

template <class T>
std::string refusal(std::span<const std::byte> bytes) {
    const auto got = unpack<T>(bytes);
    return got ? "taken" : got.error().message;
}
template <class T>
std::string refusal(std::initializer_list<int> numbers) {
    std::vector<std::byte> bytes;
    for (int n : numbers) bytes.push_back(static_cast<std::byte>(n));
    return refusal<T>(std::span<const std::byte>(bytes));
}

TEST(Record, EverythingComesBack) {
    const Tree tree = full_tree();
    const auto back = unpack<Tree>(pack(tree));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_TRUE(*back == tree);
    const auto empty = unpack<Tree>(pack(Tree{}));
    ASSERT_TRUE(empty) << empty.error().message;
    EXPECT_TRUE(*empty == Tree{});
}

TEST(Record, FieldsAreLittleEndianAndOfFixedWidth) {
    const auto bytes = pack(std::pair(Leaf{0x0102, "ab"}, std::optional(SiteId(5))));
    const std::vector<int> expected{2, 1, 2, 0, 0, 0, 'a', 'b', 0, 5, 0, 0, 0};
    ASSERT_EQ(bytes.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
}

TEST(Record, EveryEarlyEndIsAnError) {
    auto bytes = pack(full_tree());
    for (std::size_t n = 0; n < bytes.size(); ++n)
        EXPECT_FALSE(unpack<Tree>(std::span(bytes).first(n))) << n;
    bytes.push_back(std::byte{0});
    EXPECT_NE(refusal<Tree>(bytes).find("1 bytes are left over"), std::string::npos);
}

TEST(Record, ValuesThatCannotBeAreErrors) {
    EXPECT_EQ(refusal<bool>({2}), "a record of 1 bytes: at byte 1: 2 is neither true nor false");
    EXPECT_EQ(refusal<Colour>({2}),
              "a record of 1 bytes: at byte 1: 2 is none of the known values");
    EXPECT_EQ(refusal<Colour>({1}), "taken");
    using Either = std::variant<Leaf, Nothing>;
    EXPECT_NE(refusal<Either>({2, 0, 0, 0}), "taken");
    EXPECT_NE(refusal<Either>({255, 255, 255, 255}), "taken");
    EXPECT_EQ(refusal<Either>({1, 0, 0, 0}), "taken");
    EXPECT_NE(refusal<std::optional<Colour>>({3}), "taken");
}

TEST(Record, ACountThatCannotBeThereIsRefusedBeforeAnythingIsAllocated) {
    // Four thousand million of each would not fit into this machine.
    EXPECT_EQ(refusal<std::string>({255, 255, 255, 255, 1}),
              "a record of 5 bytes: at byte 4: counts 4294967295 items, more than follow");
    EXPECT_NE(refusal<std::vector<std::byte>>({255, 255, 255, 255, 1}), "taken");
    EXPECT_NE(refusal<std::vector<double>>({2, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "taken");
    EXPECT_NE(refusal<std::vector<Leaf>>({255, 255, 255, 255, 1}), "taken");
    EXPECT_NE(refusal<std::vector<Nothing>>({255, 255, 255, 255, 1}), "taken");
    EXPECT_NE(refusal<std::vector<std::vector<Leaf>>>({1, 0, 0, 0, 255, 255, 255, 255, 1}),
              "taken");
}

}  // namespace
}  // namespace isthmus
