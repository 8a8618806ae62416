#include "stats/counters.h"

namespace pgweir::stats {
namespace {

/// A pool that was freed takes its counts with it; less than before counts as nothing.
std::uint64_t grown(std::uint64_t before, std::uint64_t now) noexcept {
  return now > before ? now - before : 0;
}

Duration per(Duration before, Duration now, std::uint64_t events) noexcept {
  if (events == 0 || now <= before) return Duration{};
  return Duration(
      static_cast<std::int64_t>(static_cast<std::uint64_t>((now - before).count()) / events));
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) noexcept {
  server_assignment_count += other.server_assignment_count;
  xact_count += other.xact_count;
  query_count += other.query_count;
  bytes_received += other.bytes_received;
  bytes_sent += other.bytes_sent;
  xact_time += other.xact_time;
  query_time += other.query_time;
  wait_time += other.wait_time;
  client_parse_count += other.client_parse_count;
  server_parse_count += other.server_parse_count;
  bind_count += other.bind_count;
  return *this;
}

Counters average(const Counters& before, const Counters& now, Duration elapsed) noexcept {
  Counters out;
  if (elapsed <= Duration{}) return out;
  const auto elapsed_us = static_cast<double>(elapsed.count());
  auto per_second = [&](std::uint64_t Counters::*member) {
    out.*member = static_cast<std::uint64_t>(
        static_cast<double>(grown(before.*member, now.*member)) * 1e6 / elapsed_us);
  };
  per_second(&Counters::server_assignment_count);
  per_second(&Counters::xact_count);
  per_second(&Counters::query_count);
  per_second(&Counters::bytes_received);
  per_second(&Counters::bytes_sent);
  per_second(&Counters::client_parse_count);
  per_second(&Counters::server_parse_count);
  per_second(&Counters::bind_count);
  out.xact_time = per(before.xact_time, now.xact_time, grown(before.xact_count, now.xact_count));
  out.query_time =
      per(before.query_time, now.query_time, grown(before.query_count, now.query_count));
  out.wait_time = per(before.wait_time, now.wait_time,
                      grown(before.server_assignment_count, now.server_assignment_count));
  return out;
}

RouteCounts& RouteCounts::operator+=(const RouteCounts& other) noexcept {
  for (std::size_t target = 0; target < kTargetsMax; ++target) {
    for (std::size_t reason = 0; reason < kReasonsMax; ++reason)
      units_[target][reason] += other.units_[target][reason];
  }
  return *this;
}

}  // namespace pgweir::stats
