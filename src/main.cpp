// The program: arguments, the process, net's objects, and app::Pooler among them. PgBouncer's
// command line, signals and exit codes; subcommands (pgweir classify …) come first.
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "app/command_line.h"
#include "app/pooler.h"
#include "base/text.h"
#include "config/settings.h"
#include "net/dialer.h"
#include "net/libpq_prober.h"
#include "net/libpq_query.h"
#include "net/log_file.h"
#include "net/loop.h"
#include "net/network.h"
#include "net/password_pool.h"
#include "net/process.h"
#include "net/resolver.h"
#include "net/signals.h"
#include "net/system_random.h"
#include "net/tls.h"
#include "net/versions.h"
#include "routing/catalog_builder.h"
#include "routing/catalog_queries.h"
#include "routing/catalog_view.h"
#include "tools/classify.h"

namespace pgweir {
namespace {

std::vector<int> signal_numbers() {
  std::vector<int> numbers;
  for (const app::Signal& signal : app::signals()) numbers.push_back(signal.number);
  return numbers;
}

struct Arguments {
  bool daemon = false;
  bool quiet = false;
  int verbose = 0;
  std::string user = {};
  std::string config_path = {};
};

/// The disk, as configuration files name it.
class Disk final : public config::IniSource {
 public:
  Result<std::string> read(const std::string& path) const override {
    const net::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return Error(concat({path, ": ", net::error_text(errno)}));
    std::string text;
    char part[8192];
    ssize_t got = 0;
    while ((got = ::read(file.get(), part, sizeof part)) > 0)
      text.append(part, static_cast<std::size_t>(got));
    if (got < 0) return Error(concat({path, ": ", net::error_text(errno)}));
    return text;
  }
};

/// A catalog for `pgweir classify --catalog URL`.
class CatalogFromServer final : public tools::CatalogLoader {
 public:
  Result<std::shared_ptr<const sql::Catalog>> load(std::string_view url) override {
    Result<monitor::Rows> rows =
        net::query_and_wait(std::string(url), {routing::kCatalogSession, routing::kCatalogQuery});
    if (!rows) return rows.error();
    Result<std::shared_ptr<const routing::CatalogView>> view = routing::build_catalog(*rows, 1);
    if (!view) return view.error();
    return std::shared_ptr<const sql::Catalog>(*view);
  }
};

int classify(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv, argv + argc);
  CatalogFromServer loader;
  return tools::classify_main(arguments, std::cin, std::cout, std::cerr, &loader);
}

void print_version() {
  std::printf("pgweir %s (as PgBouncer 1.25.2)\nlibuv %s\nlibpq %s\ntls: %s\nsystemd: yes\n",
              PGWEIR_VERSION, net::libuv_version().c_str(), net::libpq_version().c_str(),
              net::openssl_version().c_str());
}

net::LogOptions log_options(const config::Settings& settings, const Arguments& arguments) {
  return {.file = settings.logfile,
          .to_stderr = !arguments.quiet && !arguments.daemon,
          .syslog = settings.syslog,
          .syslog_ident = settings.syslog_ident,
          .syslog_facility = settings.syslog_facility,
          .verbose = std::max(settings.verbose, arguments.verbose)};
}

net::SocketOptions socket_options(const config::Settings& settings) {
  return {.keepalive = settings.tcp_keepalive,
          .keepalive_idle = std::chrono::seconds(settings.tcp_keepidle),
          .keepalive_interval = std::chrono::seconds(settings.tcp_keepintvl),
          .keepalive_count = settings.tcp_keepcnt,
          .socket_buffer_bytes = settings.tcp_socket_buffer,
          .user_timeout = std::chrono::milliseconds(settings.tcp_user_timeout)};
}

net::ListenOptions listen_options(const config::Settings& settings) {
  return {.backlog = settings.listen_backlog,
          .reuse_port = settings.so_reuseport,
          .defer_accept = settings.tcp_defer_accept > 0,
          .unix_socket_mode = static_cast<unsigned>(settings.unix_socket_mode),
          .unix_socket_group = settings.unix_socket_group};
}

/// The service: what runs between the end of the preparations and the last client.
class Service final : public io::Turner {
 public:
  Service(const Arguments& arguments, net::LogFile& log, std::vector<net::Fd> passed_sockets)
      : arguments_(arguments),
        log_(log),
        resolver_(loop_),
        tls_(loop_),
        dialer_(loop_, resolver_, tls_),
        network_(loop_, log_),
        prober_(loop_, resolver_),
        passwords_(loop_, log_),
        // Before anything listens: a signal that comes early must not be the end.
        signals_(loop_, signal_numbers(),
                 [this](int number) { on_signal(number); }),
        pooler_({loop_, network_, dialer_, prober_, random_, log_, disk_, net::own_uid(), &passwords_, &tls_}) {
    network_.pass(std::move(passed_sockets));
  }

  Status start() {
    if (Status ok = pooler_.configure(arguments_.config_path); !ok) return ok;
    use_settings();
    return pooler_.start();
  }

  void run() {
    net::notify_service_manager("READY=1");
    loop_.run(*this);
    net::notify_service_manager("STOPPING=1");
  }

  Time turn() noexcept override {
    const Time next = pooler_.turn();
    if (&pooler_.settings() != settings_in_use_) use_settings();
    if (const std::string line = pooler_.take_stats_line(); !line.empty())
      net::notify_service_manager("STATUS=stats: " + line);
    if (reloading_) {
      reloading_ = false;
      net::notify_service_manager("READY=1");
    }
    if (pooler_.finished()) loop_.stop();
    return next;
  }

 private:
  /// Brings what sockets and the log are made with in line with the settings; also after RELOAD and
  /// SET.
  void use_settings() noexcept {
    const config::Settings& settings = pooler_.settings();
    settings_in_use_ = &settings;
    if (Status ok = log_.configure(log_options(settings, arguments_)); !ok)
      log_.error(ok.error().text());
    resolver_.configure(settings.dns_max_ttl, settings.dns_nxdomain_ttl);
    dialer_.configure(socket_options(settings));
    network_.configure(listen_options(settings), socket_options(settings));
  }

  void on_signal(int number) noexcept {
    switch (number) {
      case SIGHUP:
        log_.log("got SIGHUP, re-reading config");
        net::notify_reloading();
        if (Status ok = log_.reopen(); !ok) log_.error(ok.error().text());
        reloading_ = true;
        pooler_.request_reload();
        break;
      case SIGTERM:
        log_.log("got SIGTERM, shutting down when all clients have left");
        shut_down(app::Shutdown::wait_for_clients);
        break;
      case SIGINT:
        log_.log("got SIGINT, shutting down when no server is in use");
        shut_down(app::Shutdown::wait_for_servers);
        break;
      case SIGQUIT:
        log_.log("got SIGQUIT, shutting down at once");
        shut_down(app::Shutdown::now);
        break;
      // What becomes of these two depends on what the pooler is doing; it says so itself.
      case SIGUSR1:
        pooler_.pause_all();
        break;
      case SIGUSR2:
        pooler_.resume_all();
        break;
      default:
        break;
    }
  }

  void shut_down(app::Shutdown how) noexcept {
    net::notify_service_manager("STOPPING=1");
    pooler_.request_shutdown(how);
  }

  const Arguments& arguments_;
  net::LogFile& log_;
  Disk disk_;
  net::SystemRandom random_;
  net::Loop loop_;
  net::Resolver resolver_;
  net::Tls tls_;
  net::SocketDialer dialer_;
  net::SocketNetwork network_;
  net::LibpqProber prober_;
  net::PasswordPool passwords_;
  net::Signals signals_;
  app::Pooler pooler_;
  /// Only compared: a new address means new settings.
  const config::Settings* settings_in_use_ = nullptr;
  bool reloading_ = false;
};

/// What has to be so before a socket is opened. The log is configured on the way.
Status prepare(const Arguments& arguments, const config::Settings& settings, net::LogFile& log) {
  const std::string& user = arguments.user.empty() ? settings.user : arguments.user;
  if (!user.empty()) {
    if (Status ok = net::switch_to_user(user); !ok) return ok;
  }
  if (net::is_root()) return Error("pgweir should not run as root");
  if (arguments.daemon) {
    if (settings.pidfile.empty())
      return Error("-d needs a pidfile: expected pidfile = in the configuration");
    if (settings.logfile.empty() && !settings.syslog) {
      return Error("-d needs a log: expected logfile = or syslog = 1 in the configuration");
    }
  }
  if (Status ok = log.configure(log_options(settings, arguments)); !ok) return ok;
  Result<net::Pidfile::Found> found = net::Pidfile::check(settings.pidfile);
  if (!found) return found.error();
  if (found->stale)
    log.log(concat({"removed pidfile \"", settings.pidfile, "\" of a process that is gone"}));
  if (arguments.daemon) return net::daemonize();
  return {};
}

Status serve(const Arguments& arguments, net::LogFile& log) {
  std::vector<net::Fd> passed_sockets = net::take_passed_sockets();
  Result<config::Settings> settings = config::load(Disk(), arguments.config_path);
  if (!settings) return settings.error();
  if (Status ok = prepare(arguments, *settings, log); !ok) return ok;
  net::ignore_broken_pipes();
  const net::DescriptorLimit limit = net::raise_descriptor_limit();
  log.log(concat({"kernel file descriptor limit: ", std::to_string(limit.soft),
                  " (hard: ", std::to_string(limit.hard),
                  "); max_client_conn: ", std::to_string(settings->max_client_conn)}));
  net::Pidfile pidfile;
  if (Status ok = pidfile.write(settings->pidfile); !ok) return ok;
  {
    Service service(arguments, log, std::move(passed_sockets));
    if (Status ok = service.start(); !ok) return ok;
    log.log(concat({"process up: pgweir ", PGWEIR_VERSION, " (as PgBouncer 1.25.2), libuv ",
                    net::libuv_version(), ", tls: ", net::openssl_version()}));
    service.run();
  }  // The last clients are told here.
  log.log("process down");
  return {};
}

int complain(std::string_view text) {
  std::fprintf(stderr, "pgweir: %.*s\nTry \"pgweir --help\".\n", static_cast<int>(text.size()),
               text.data());
  return 1;
}

int run(int argc, char** argv) {
  std::string letters;
  std::vector<option> options;
  for (const app::Flag& flag : app::flags()) {
    letters += flag.letter;
    if (!flag.argument.empty()) letters += ':';
    options.push_back({flag.name, flag.argument.empty() ? no_argument : required_argument, nullptr,
                       flag.letter});
  }
  options.push_back({nullptr, 0, nullptr, 0});
  if (argc > 1 && std::string_view(argv[1]) == "classify") return classify(argc - 2, argv + 2);
  Arguments arguments;
  opterr = 0;  // We say it ourselves, once.
  for (int letter = 0;
       (letter = getopt_long(argc, argv, letters.c_str(), options.data(), nullptr)) != -1;) {
    switch (letter) {
      case 'd':
        arguments.daemon = true;
        break;
      case 'u':
        arguments.user = optarg;
        break;
      case 'q':
        arguments.quiet = true;
        break;
      case 'v':
        ++arguments.verbose;
        break;
      case 'V':
        print_version();
        return 0;
      case 'h':
        std::fputs(app::usage().c_str(), stdout);
        return 0;
      case 'R':
        return complain(
            "-R (online restart) is not supported: with so_reuseport = 1 start the new process "
            "beside the old one, then send that one SIGTERM; [peers] lets both pass cancel "
            "requests "
            "on");
      default:
        if (optopt == 'u') return complain("-u needs the name of a user");
        if (optopt != 0) return complain(concat({"unknown option: -", std::string(1, static_cast<char>(optopt))}));
        return complain(concat({"unknown option: ", argv[optind - 1]}));
    }
  }
  if (optind == argc) return complain("no configuration file specified");
  if (optind + 1 < argc) return complain("expected one configuration file");
  arguments.config_path = argv[optind];
  net::LogFile log;
  (void)log.configure({.to_stderr = !arguments.quiet, .verbose = arguments.verbose});
  if (const Status ok = serve(arguments, log); !ok) {
    log.write(LogLevel::fatal, ok.error().text());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace pgweir

int main(int argc, char** argv) {
  const int status = pgweir::run(argc, argv);
  if (pgweir::net::Loop::died_at_work()) {
    std::fflush(nullptr);
    ::_exit(status);
  }
  return status;
}
