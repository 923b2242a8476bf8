// Which samples a site trains on, before there are leases: sites take turns by micro-batch.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "base/ids.hpp"

namespace isthmus::outer {

/// A site's part of the run's data order.
struct SampleShare {
    SiteId site;
    std::uint32_t num_sites = 1;
    std::uint64_t micro_batch_samples = 1;
};

/// Number in the run of a site's own n-th sample. Its k-th micro-batch is the run's (k M + s)-th,
/// for site s of M: no sample is trained twice, none is left out, and what all sites train in step
/// t is what data parallelism over M ranks would train in step t.
inline SampleNumber site_sample(const SampleShare& share, SampleNumber own) {
    CHECK(share.site.value < share.num_sites && share.micro_batch_samples > 0);
    const std::uint64_t micro_batch = own.value / share.micro_batch_samples;
    const std::uint64_t inside = own.value % share.micro_batch_samples;
    return SampleNumber(
        (micro_batch * share.num_sites + share.site.value) * share.micro_batch_samples + inside);
}

}  // namespace isthmus::outer
