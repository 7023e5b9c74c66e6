#include "kv_offload/bench/inspect.hpp"

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/inspect_extent.hpp"
#include "kv_offload/bench/inspect_fs.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ostream>
#include <sys/stat.h>

namespace kv_offload::bench {
namespace {

void print(std::ostream& out, const FsReport& report, const InspectOptions& options) {
  for (const auto& ns : report.namespaces) {
    out << ns.directory << '\n'
        << "  " << (ns.identity.empty() ? "identity unknown" : ns.identity) << '\n';
    TextTable table;
    table.row({"", "files", "bytes", "on disk"});
    const auto row = [&](const char* what, const FileCount& files, bool always = false) {
      if (files.files > 0 || always)
        table.row({std::string("  ") + what, with_commas(files.files),
                   human_bytes(static_cast<double>(files.bytes)),
                   human_bytes(static_cast<double>(files.allocated))});
    };
    row("chunks", ns.chunks, true);
    row("of them foreign", ns.foreign);
    row("quarantined", ns.quarantined);
    row("being written", ns.being_written);
    row("left over", ns.left_over);
    row("other files", ns.other);
    table.print(out);
    if (ns.row_bytes > 0) out << "  rows of " << with_commas(ns.row_bytes) << " bytes\n";
    if (options.verify) out << "  " << with_commas(ns.verified) << " chunks have their digest\n";
    if (options.purge_quarantined)
      out << "  " << with_commas(ns.purged) << " quarantined files removed\n";
  }
  if (report.vanished > 0)
    out << with_commas(report.vanished) << " files went while they were looked at\n";
}

void print(std::ostream& out, const ExtentReport& r, const InspectOptions& options) {
  out << options.path << ": extent file, model " << r.model << ", namespace " << r.fingerprint
      << '\n';
  if (r.is_in_use)
    out << "  in use: what an engine changes meanwhile may be counted as before or after\n";
  out << "  " << human_bytes(static_cast<double>(r.capacity_bytes)) << ", " << r.segments
      << " segments of " << r.slots_per_segment << " rows of " << with_commas(r.row_bytes)
      << " bytes, " << r.free_segments << " free\n"
      << "  " << with_commas(r.chunks) << " chunks, "
      << human_bytes(static_cast<double>(r.chunks * r.row_bytes)) << "; dead rows "
      << with_commas(r.dead_slots) << ", share " << fixed(r.dead_share(), 4) << "; older copies "
      << with_commas(r.superseded) << '\n';
  if (!r.is_in_use) out << "  the last stop was " << (r.was_clean ? "clean" : "not clean") << '\n';
  for (const auto& note : r.notes) out << "  " << note << '\n';
  if (!options.verify) return;
  out << "  " << with_commas(r.verified) << " rows have their digest";
  if (r.without_digest > 0)
    out << "; " << with_commas(r.without_digest) << " were stored without one";
  if (r.other_revisions > 0)
    out << "; " << with_commas(r.other_revisions) << " of other revisions were not verified";
  if (r.changed > 0) out << "; " << with_commas(r.changed) << " were replaced meanwhile";
  out << '\n';
}

Json to_json(const FileCount& files) {
  return {{"files", files.files}, {"bytes", files.bytes}, {"allocated_bytes", files.allocated}};
}

void add_to(Json& document, const FsReport& report) {
  document["kind"] = "fs";
  document["namespaces"] = Json::array();
  for (const auto& ns : report.namespaces)
    document["namespaces"].push_back({{"directory", ns.directory},
                                      {"identity", ns.identity},
                                      {"row_bytes", ns.row_bytes},
                                      {"chunks", to_json(ns.chunks)},
                                      {"foreign", to_json(ns.foreign)},
                                      {"quarantined", to_json(ns.quarantined)},
                                      {"being_written", to_json(ns.being_written)},
                                      {"left_over", to_json(ns.left_over)},
                                      {"other", to_json(ns.other)},
                                      {"verified", ns.verified},
                                      {"purged", ns.purged}});
  document["vanished"] = report.vanished;
}

void add_to(Json& document, const ExtentReport& r) {
  document["kind"] = "extent";
  document["extent"] = {{"model", r.model},
                        {"fingerprint", r.fingerprint},
                        {"capacity_bytes", r.capacity_bytes},
                        {"row_bytes", r.row_bytes},
                        {"slots_per_segment", r.slots_per_segment},
                        {"segments", r.segments},
                        {"free_segments", r.free_segments},
                        {"unreadable_segments", r.unreadable_segments},
                        {"chunks", r.chunks},
                        {"dead_slots", r.dead_slots},
                        {"dead_share", r.dead_share()},
                        {"superseded", r.superseded},
                        {"in_use", r.is_in_use},
                        {"clean_stop", r.was_clean},
                        {"notes", r.notes},
                        {"verified", r.verified},
                        {"without_digest", r.without_digest},
                        {"other_revisions", r.other_revisions},
                        {"changed", r.changed}};
}

int usage_error(std::ostream& err, const std::string& line) {
  err << "kv-offload-bench: " << line << '\n';
  return kUsageError;
}

/// The human part and the document of what was found, whichever kind it is.
template <class Report>
int finish(const Report& report, const DamageList& damage, const InspectOptions& options,
           std::chrono::steady_clock::time_point start, std::ostream& out, std::ostream& err) {
  if (!options.output.quiet) {
    print(out, report, options);
    for (const auto& entry : damage.entries())
      out << "damaged: " << entry.where << ": " << entry.what << '\n';
    if (damage.count() > damage.entries().size())
      out << "damaged: " << with_commas(damage.count() - damage.entries().size())
          << " more (--limit)\n";
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  Json document = document_head(wall.count());
  document["promises"] = Json::array();
  document["path"] = options.path;
  add_to(document, report);
  document["damaged"] = {{"count", damage.count()}, {"named", Json::array()}};
  for (const auto& entry : damage.entries())
    document["damaged"]["named"].push_back({{"where", entry.where}, {"what", entry.what}});
  if (const auto error = write_json(options.output.json_file, document))
    return usage_error(err, *error);
  if (damage.count() == 0) return kHeld;
  err << "kv-offload-bench: " << options.path << ": " << damage.count() << " damaged\n";
  return kCheckFailed;
}

}  // namespace

int run_inspect(const InspectOptions& options, std::ostream& out, std::ostream& err) {
  const auto start = std::chrono::steady_clock::now();
  if (const auto error = check_writable(options.output.json_file)) return usage_error(err, *error);
  struct stat info {};
  if (::stat(options.path.c_str(), &info) != 0)
    return usage_error(err, options.path + ": " + std::strerror(errno));
  DamageList damage(options.limit);
  if (S_ISDIR(info.st_mode)) {
    if (options.config_file)
      return usage_error(err, "--config is for an extent file; a file tier's directory needs none");
    const auto report = inspect_fs(options.path, options.verify, options.purge_quarantined, damage);
    if (!report) return usage_error(err, report.error().detail);
    return finish(*report, damage, options, start, out, err);
  }
  if (options.purge_quarantined)
    return usage_error(err, "--purge-quarantined is for a file tier's directory, and " +
                                options.path + " is none");
  std::optional<NamespaceIdentity> identity;
  if (options.config_file) {
    const auto config = EngineConfig::load_file(*options.config_file);
    if (!config) return usage_error(err, config.error().detail);
    identity = config->identity;
  }
  const auto report = inspect_extent(options.path, options.verify, identity, damage);
  if (!report) return usage_error(err, report.error().detail);
  return finish(*report, damage, options, start, out, err);
}

}  // namespace kv_offload::bench
