#include "launch/model_port.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::launch {

std::int64_t TrainerPort::fragment_elements(FragmentId fragment) const {
    CHECK(fragment == FragmentId(0));
    return trainer_.layout().count();
}

void TrainerPort::read(FragmentId fragment, std::span<float> out) {
    CHECK(static_cast<std::int64_t>(out.size()) == fragment_elements(fragment));
    auto to = out.begin();
    for (std::uint32_t u = 0; u < num_units(); ++u) {
        const auto unit = trainer_.parameters(UnitId(u));
        to = std::copy(unit.begin(), unit.end(), to);
    }
    CHECK(to == out.end());
}

void TrainerPort::write(FragmentId fragment, std::span<const float> values) {
    CHECK(static_cast<std::int64_t>(values.size()) == fragment_elements(fragment));
    for (std::uint32_t u = 0; u < num_units(); ++u) {
        const auto unit = trainer_.parameters(UnitId(u));
        std::copy_n(values.begin(), unit.size(), unit.begin());
        values = values.subspan(unit.size());
    }
    CHECK(values.empty());
    trainer_.parameters_changed();
}

}  // namespace isthmus::launch
