#include "kv_offload/bench/object_server/s3_xml.hpp"

#include "kv_offload/bench/object_server/http_request.hpp"

#include <pugixml.hpp>

#include <array>
#include <cstdio>
#include <cstring>

namespace kv_offload::bench {
namespace {

constexpr std::size_t kDeleteKeysMax = 1000;  // S3's own limit
constexpr std::string_view kHead = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
constexpr std::string_view kNamespace = " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

void escape(std::string& xml, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '<': xml += "&lt;"; break;
      case '>': xml += "&gt;"; break;
      case '&': xml += "&amp;"; break;
      case '"': xml += "&quot;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20)
          xml += c;
        else
          xml += "&#" + std::to_string(static_cast<int>(c)) + ';';
    }
  }
}

void element(std::string& xml, std::string_view name, std::string_view text) {
  xml.append("<").append(name).append(">");
  escape(xml, text);
  xml.append("</").append(name).append(">");
}

}  // namespace

std::string error_xml(std::string_view code, std::string_view message, std::string_view bucket,
                      std::string_view key) {
  std::string xml(kHead);
  xml += "<Error>";
  element(xml, "Code", code);
  element(xml, "Message", message);
  element(xml, "BucketName", bucket);
  if (!key.empty()) element(xml, "Key", key);
  return xml + "</Error>";
}

std::string redirect_xml(std::string_view bucket, std::string_view endpoint) {
  std::string xml(kHead);
  xml += "<Error>";
  element(xml, "Code", "PermanentRedirect");
  element(
      xml, "Message",
      "The bucket you are attempting to access must be addressed using the specified endpoint.");
  element(xml, "Endpoint", endpoint);
  element(xml, "Bucket", bucket);
  return xml + "</Error>";
}

std::string list_xml(const ListPage& page) {
  const auto text = [&page](const std::string& plain) {
    return page.url_encoded ? percent_encoded(plain) : plain;
  };
  std::string xml(kHead);
  xml.append("<ListBucketResult").append(kNamespace).append(">");
  element(xml, "Name", page.bucket);
  element(xml, "Prefix", text(page.prefix));
  element(xml, "KeyCount", std::to_string(page.objects.size()));
  element(xml, "MaxKeys", std::to_string(page.keys_max));
  if (page.url_encoded) element(xml, "EncodingType", "url");
  element(xml, "IsTruncated", page.next_token ? "true" : "false");
  if (page.token) element(xml, "ContinuationToken", *page.token);
  if (page.next_token) element(xml, "NextContinuationToken", *page.next_token);
  for (const auto& [key, object] : page.objects) {
    xml += "<Contents>";
    element(xml, "Key", text(key));
    element(xml, "LastModified", iso_time(object->modified));
    element(xml, "ETag", object->etag);
    element(xml, "Size", std::to_string(object->size));
    element(xml, "StorageClass", "STANDARD");
    xml += "</Contents>";
  }
  return xml + "</ListBucketResult>";
}

std::optional<DeleteOrder> parse_delete_xml(std::string_view text) {
  pugi::xml_document document;
  if (!document.load_buffer(text.data(), text.size(),
                            pugi::parse_default | pugi::parse_ws_pcdata_single))
    return std::nullopt;
  const auto root = document.child("Delete");
  DeleteOrder order;
  order.quiet = std::strcmp(root.child_value("Quiet"), "true") == 0;
  for (const auto object : root.children("Object")) {
    if (!object.child("Key") || order.keys.size() == kDeleteKeysMax) return std::nullopt;
    order.keys.emplace_back(object.child_value("Key"));
  }
  if (order.keys.empty()) return std::nullopt;
  return order;
}

std::string deleted_xml(const DeleteOrder& order) {
  std::string xml(kHead);
  xml.append("<DeleteResult").append(kNamespace).append(">");
  if (!order.quiet) {
    for (const auto& key : order.keys) {
      xml += "<Deleted>";
      element(xml, "Key", key);
      xml += "</Deleted>";
    }
  }
  return xml + "</DeleteResult>";
}

std::string iso_time(std::time_t at) {
  std::tm parts{};
  ::gmtime_r(&at, &parts);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.000Z", &parts);
  return text.data();
}

}  // namespace kv_offload::bench
