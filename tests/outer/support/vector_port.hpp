// A model that is a vector of floats.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "outer/model_port.hpp"

namespace isthmus::outer::test {

class VectorPort : public ModelPort {
  public:
    VectorPort(std::vector<std::int64_t> units, std::vector<float> start)
        : values(std::move(start)), units_(std::move(units)) {}
    std::uint32_t num_fragments() const override { return 1; }
    std::vector<std::int64_t> unit_elements(FragmentId) const override { return units_; }
    void read(FragmentId, std::int64_t offset, std::span<float> out) override {
        std::ranges::copy(run(offset, out.size()), out.begin());
    }
    void write(FragmentId, std::int64_t offset, std::span<const float> in) override {
        std::ranges::copy(in, run(offset, in.size()).begin());
        changed = true;
    }
    void written() override { changed = false; }
    std::int64_t inner_state_bytes() const override { return 0; }
    void read_inner_state(std::span<std::byte>) override {}
    void write_inner_state(std::span<const std::byte>) override {}

    std::vector<float> values;
    bool changed = false;  ///< written to, and written() not called since

  private:
    std::span<float> run(std::int64_t offset, std::size_t count) {
        const auto first = static_cast<std::size_t>(offset);
        CHECK(first + count <= values.size());
        return std::span(values).subspan(first, count);
    }
    std::vector<std::int64_t> units_;
};

}  // namespace isthmus::outer::test
