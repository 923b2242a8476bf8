// A folder of one test, removed at its end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.hpp"

namespace isthmus::test {

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "isthmus-XXXXXX").string();
        CHECK(::mkdtemp(name.data()) != nullptr, "cannot make {}", name);
        path_ = name;
    }
    ~TemporaryFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

}  // namespace isthmus::test
