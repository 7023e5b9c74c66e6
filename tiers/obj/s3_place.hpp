#pragma once

#include <string>

namespace kv_offload {

/// Where a bucket is.
struct S3Place {
  std::string scheme = "https";
  std::string host;  ///< with its port, if it is not the scheme's
  std::string bucket;
  std::string region = "us-east-1";
  bool virtual_host = false;  ///< <bucket>.<host>/<key>, else <host>/<bucket>/<key>
};

/// "https://host/bucket", for people.
inline std::string to_string(const S3Place& place) {
  return place.virtual_host ? place.scheme + "://" + place.bucket + "." + place.host
                            : place.scheme + "://" + place.host + "/" + place.bucket;
}

}  // namespace kv_offload
