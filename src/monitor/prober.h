// monitor: watches the nodes of a cluster and says what it saw as a ClusterView and a CatalogView.
// Its own world is this interface: questions to nodes, answered later. net implements it over
// libpq.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/io.h"

namespace pgweir::monitor {

/// Where a node that asks for it gets the password in clear text though the connection is not encrypted.
enum class Cleartext : std::uint8_t { nowhere, within_machine, anywhere };

struct Login {
  std::string user;
  std::string password;  ///< Empty: none is sent.
  std::string dbname;
  io::SharedTlsSettings tls = {};  ///< Null: not encrypted.
  Cleartext cleartext = Cleartext::within_machine;
};

/// Rows as text; nullopt is NULL.
using ProbeRow = std::vector<std::optional<std::string>>;
using Rows = std::vector<ProbeRow>;

/// Who asked.
class ProbeUser {
 public:
  /// Once for each question, never from within ask().
  virtual void on_answer(std::uint64_t question, Result<Rows> answer) noexcept = 0;
  /// A row of a question that was asked by row; on_answer() follows the last one, also when the
  /// question fails in the middle. The probe must outlive the call.
  virtual void on_row(std::uint64_t /*question*/, const ProbeRow& /*row*/) noexcept {}

 protected:
  ~ProbeUser() = default;
};

/// A connection to one node that connects when first asked, again after a loss. Destroying it drops
/// what is open without a callback.
class Probe {
 public:
  virtual ~Probe() = default;
  /// One question (one statement or several; the rows of the last one that returns any are the
  /// answer), queued behind earlier ones. An Error carries the node's SQLSTATE when it answered
  /// one. `deadline` is for connecting and answering together; past it the connection is dropped.
  virtual void ask(std::uint64_t question, std::string_view sql, Time deadline) = 0;
  /// The same for an answer that is too long to take in at once: its rows are given one by one as
  /// they arrive, and the answer itself has none.
  virtual void ask_by_row(std::uint64_t question, std::string_view sql, Time deadline) = 0;
  virtual bool connected() const noexcept = 0;
};

class Prober {
 public:
  virtual ~Prober() = default;
  virtual std::unique_ptr<Probe> probe(const io::Address& node, const Login& login,
                                       ProbeUser& user) = 0;
};

}  // namespace pgweir::monitor
