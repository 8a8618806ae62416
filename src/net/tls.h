// tls: the contexts in use, towards clients and towards servers, and their replacement by a reload.
#pragma once

#include <memory>
#include <vector>

#include "io/tls.h"
#include "net/loop.h"
#include "net/tls_context.h"

namespace pgweir::net {

class Tls final : public io::Tls {
 public:
  explicit Tls(Loop& loop) noexcept : loop_(loop) {}

  Status use(const io::TlsSettings& clients,
             const std::vector<io::SharedTlsSettings>& servers) override;
  std::unique_ptr<io::Transport> accept(std::unique_ptr<io::Transport> plain,
                                        io::TransportUser& user, io::TlsStart how,
                                        Bytes read) override;

  /// The context for connections to servers with these settings; made when use() did not name them.
  Result<std::shared_ptr<TlsContext>> towards_servers(const io::TlsSettings& settings);

 private:
  using Context = std::shared_ptr<TlsContext>;

  Loop& loop_;
  Context clients_;
  std::vector<Context> servers_;
};

}  // namespace pgweir::net
