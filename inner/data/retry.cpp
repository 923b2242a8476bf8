#include "inner/data/retry.hpp"

#include <thread>

namespace isthmus::inner {
namespace {

class RetryingFile final : public ReadableFile {
  public:
    RetryingFile(std::unique_ptr<ReadableFile> file, RetryPolicy policy)
        : file_(std::move(file)), policy_(policy) {}

    std::uint64_t size() const override { return file_->size(); }

    Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
        Status status = file_->read_at(offset, out);
        auto wait = policy_.first_wait;
        for (int retry = 0; !status && retry < policy_.retries; ++retry, wait *= 5) {
            if (wait.count() > 0) std::this_thread::sleep_for(wait);
            status = file_->read_at(offset, out);
        }
        if (status) return status;
        return Error{
            fmt::format("{} (tried {} times)", status.error().message, policy_.retries + 1)};
    }

  private:
    std::unique_ptr<ReadableFile> file_;
    RetryPolicy policy_;
};

}  // namespace

std::unique_ptr<ReadableFile> with_retries(std::unique_ptr<ReadableFile> file, RetryPolicy policy) {
    return std::make_unique<RetryingFile>(std::move(file), policy);
}

}  // namespace isthmus::inner
