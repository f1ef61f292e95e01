// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/trace_file.hpp"

#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/events_file.hpp"
#include "formats/files/trace/models_file.hpp"
#include "formats/files/trace/outages_file.hpp"
#include "formats/rules/rules.hpp"
#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>

namespace tpx::formats {
namespace {

ParsedTrace trace_of(const std::string& text, const std::string& cluster = "2x4", const std::string& speeds = "") {
    const Cluster machines = read_cluster(cluster);
    return parse_trace(text, "t", machines, speeds.empty() ? JobSpeeds{} : parse_speeds(speeds, "s", machines));
}

// The error of the only invalid row.
std::string fault(const std::string& text, const std::string& cluster = "2x4", const std::string& speeds = "") {
    const ParsedTrace trace = trace_of(text, cluster, speeds);
    REQUIRE(trace.bad.size() == 1);
    return trace.bad[0];
}

TEST_CASE("a trace of tpx is read with all its columns") {
    const std::string text =
        "name,arrival,gpus,duration,scaling,min_gpus,max_gpus,priority,guaranteed,deadline\n"
        "a,5,2,100,0.5,1,4,10,no,300\n";
    const ParsedTrace trace = trace_of(text);
    REQUIRE(trace.jobs.size() == 1);
    const TraceJob& job = trace.jobs[0];
    CHECK(trace.format == "tpx");
    CHECK(job.name == "a");
    CHECK(job.arrival == 5 * second);
    CHECK(job.gpus == 2);
    CHECK(job.least == 1);
    CHECK(job.most == 4);
    CHECK(job.work == 100e6);
    CHECK(job.priority == 10);
    CHECK(!job.guaranteed);
    CHECK(job.deadline == 300 * second);
    CHECK(job.speed->rate({{{0, 2}}}, read_cluster("2x4")) == 1);
    CHECK(job.speed->rate({{{0, 4}}}, read_cluster("2x4")) == doctest::Approx(1.41421356));
}

TEST_CASE("S7: a job without limits has those that its rates allow, or those of --elastic") {
    const auto limits = [](const std::string& text, const std::string& speeds = "",
                           const std::optional<Elasticity>& elasticity = {}) {
        const Cluster cluster = read_cluster("2x4");
        const JobSpeeds book = speeds.empty() ? JobSpeeds{} : parse_speeds(speeds, "s", cluster);
        const ParsedTrace trace = parse_trace(text, "t", cluster, book, elasticity);
        REQUIRE(trace.jobs.size() == 1);
        return std::pair{trace.jobs[0].least, trace.jobs[0].most};
    };
    const std::string plain = "arrival,gpus,duration\n0,4,9\n", limited = "arrival,gpus,duration,max_gpus\n0,4,9,6\n";
    const std::string model = "arrival,gpus,steps,model\n0,4,9,m\n", rates = "model,gpus,rate\nm,4,1\nm,8,2\n";
    const std::string philly = "timestamp,duration,num_gpus\n2017-10-09 07:01:55,9,4\n";
    const std::string virtualflow = R"([{"name":"j","arrival_time":0,"gpu_demand":4,"priority":1,"workload":"m"}])";
    CHECK(limits(plain) == std::pair{4, 4});
    CHECK(limits(philly) == std::pair{4, 4});
    CHECK(limits(limited) == std::pair{4, 6});
    CHECK(limits(model, rates) == std::pair{1, 8});
    CHECK(limits(virtualflow, rates) == std::pair{1, 4});
    CHECK(limits(plain, "", Elasticity{0, 1}) == std::pair{1, 4});
    CHECK(limits(philly, "", Elasticity{0.5, 2}) == std::pair{2, 8});
    CHECK(limits(limited, "", Elasticity{0, 1}) == std::pair{4, 6});
    CHECK(limits(model, rates, Elasticity{}) == std::pair{4, 4});
}

TEST_CASE("jobs are ordered by arrival, ties by line") {
    const ParsedTrace trace = trace_of("name,arrival,gpus,duration\nb,9,1,1\nc,3,1,1\na,3,1,1\n");
    REQUIRE(trace.jobs.size() == 3);
    CHECK(trace.jobs[0].name == "c");
    CHECK(trace.jobs[1].name == "a");
    CHECK(trace.jobs[2].name == "b");
}

TEST_CASE("invalid rows are reported with their lines") {
    const std::string head = "name,arrival,gpus,duration\n";
    CHECK(fault(head + "a,0,1") == "t:2: 3 cells, but the header has 4 columns");  // truncated in the middle
    CHECK(fault(head + "a,-1,1,5\n") == "t:2: column 'arrival': -1 is not from 0 to 1e+09");
    CHECK(fault(head + "a,0,1,-5\n") == "t:2: column 'duration': -5 is not from 0 to 1e+09");
    CHECK(fault(head + "a,nan,1,5\n") == "t:2: column 'arrival': 'nan' is not a number");
    CHECK(fault(head + "a,inf,1,5\n") == "t:2: column 'arrival': 'inf' is not a number");
    CHECK(fault(head + "a,1e300,1,5\n") == "t:2: column 'arrival': 1e+300 is not from 0 to 1e+09");
    CHECK(fault(head + "a,0,0,5\n") == "t:2: column 'gpus': 0 is not from 1 to 1048576");
    CHECK(fault(head + "a,0,1.5,5\n") == "t:2: column 'gpus': 1.5 is not a whole number");
    CHECK(fault(head + "a,0,9,5\n") == "t:2: the job requests 9 GPUs, but the cluster has 8");
    CHECK(fault(head + "a,0,1,5\na,1,1,5\n") == "t:3: job 'a' is there twice");
    CHECK(fault("arrival,gpus,steps,model\n0,1,10,x\n") ==
          "t:2: the job has steps, but --speeds has no rates for job 'job-2' or model 'x'");
    CHECK(fault("arrival,gpus,duration,kind\n0,1,5,H100\n") ==
          "t:2: column 'kind': the cluster has no GPUs of kind 'H100'");
    CHECK(fault("arrival,gpus,duration,guaranteed\n0,1,5,perhaps\n") ==
          "t:2: column 'guaranteed': 'perhaps' is neither true nor false");
    CHECK(fault("arrival,gpus,duration,memory\n0,1,5,many\n").starts_with("t:2: column 'memory': "));
}

TEST_CASE("flags are read as pandas and Excel write them") {
    const ParsedTrace trace = trace_of(
        "arrival,gpus,duration,guaranteed\n0,1,5,True\n0,1,5,TRUE\n0,1,5,Yes\n0,1,5,False\n0,1,5,FALSE\n0,1,5,no\n");
    CHECK(trace.bad.empty());
    REQUIRE(trace.jobs.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) CHECK(trace.jobs[i].guaranteed == (i < 3));
}

TEST_CASE("invalid rows do not hide valid ones") {
    const ParsedTrace trace = trace_of("arrival,gpus,duration\n0,1,5\n-1,1,5\n3,1\n4,1,5\n\n5,99,5\n");
    CHECK(trace.jobs.size() == 2);
    REQUIRE(trace.bad.size() == 3);
    CHECK(trace.bad[0].starts_with("t:3: "));
    CHECK(trace.bad[1].starts_with("t:4: "));
    CHECK(trace.bad[2].starts_with("t:7: "));
}

TEST_CASE("cores, memory and quotas that can never be met are refused") {
    const Cluster cluster = parse_cluster(
        "[[hosts]]\nname = \"a\"\ngpus = 4\ncpus = 8\nmemory = \"64GB\"\n"
        "[[tenants]]\nname = \"t\"\nquota = 2\n",
        "c");
    const auto bad = [&](const std::string& row) {
        const ParsedTrace trace = parse_trace("arrival,gpus,duration,cpus,memory,tenant\n" + row, "t", cluster, {});
        return trace.bad.empty() ? std::string{} : trace.bad[0];
    };
    CHECK(bad("0,2,5,4,8GB,\n").empty());
    CHECK(bad("0,4,5,4,8GB,\n") ==
          "t:2: the job requests 4 GPUs of one type with 4 cores and 8.00 GB each, which even the idle cluster lacks");
    CHECK(bad("0,3,5,1,1GB,t\n") == "t:2: the job requests 3 GPUs, but the quota of tenant 't' is 2");
    CHECK(bad("0,1,5,1,1GB,u\n") == "t:2: column 'tenant': the cluster has no tenant 'u'");
}

TEST_CASE("other trace formats are recognized by their columns") {
    CHECK(trace_of("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,1,60,x\n").format == "philly");
    CHECK(fault("timestamp,duration,num_gpus,cluster\n2017-13-09 07:01:55,60,1,x\n") ==
          "t:2: column 'timestamp': '2017-13-09 07:01:55' is not a time");
    CHECK(fault("timestamp,duration,num_gpus,cluster\nyesterday,60,1,x\n").starts_with("t:2: column 'timestamp': "));
    CHECK(fault("[{\"arrival_time\": 1, \"workload\": \"bert\", \"gpu_demand\": 64, \"priority\": 1}]", "2x4",
                "model,gpus,rate\nbert,1,5\n") == "t:1: there is no rate with 64 GPUs");
    CHECK(fault("ResNet\tx\ty\tz\t0\t100\t1\t1\t-1\nResNet\tx\ty\tz\t0\t100\t1\t1\t-1\t5\n", "2x4",
                "model,gpus,rate\nResNet,1,5\n") == "t:1: 9 fields between tabs, but a trace of Gavel's has 10");
    CHECK_THROWS_AS(trace_of("when,what\n1,2\n"), Error);
    CHECK_THROWS_AS(trace_of(""), Error);
    CHECK_THROWS_AS(trace_of("[{\"arrival\": 1"), Error);
}

TEST_CASE("a truncated trace is refused or read up to the cut") {
    for (const char* name : {"trace.csv", "gavel.trace", "virtualflow3.json", "philly.csv", "rubick-base.csv"}) {
        const std::string whole = read_file(std::string{"testdata/simulate/"} + name, 1 << 20).substr(0, 3000);
        for (std::size_t length = 0; length < whole.size(); length += 7) {
            try {
                trace_of(whole.substr(0, length));
            } catch (const Error&) {
            }
        }
    }
}

TEST_CASE("invalid rates are refused with their lines") {
    const Cluster cluster = read_cluster("1x4");
    const auto bad = [&](const char* text) {
        try {
            parse_speeds(text, "s", cluster);
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(bad("model,gpus,rate\nx,1,5\n").empty());
    CHECK(bad("model,gpus,rate\nx,1,-5\n") == "s:2: column 'rate': -5 is not from 0 to 1e+12");
    CHECK(bad("model,gpus,rate\nx,1,nan\n") == "s:2: column 'rate': 'nan' is not a number");
    CHECK(bad("model,gpus,rate\nx,0,1\n").starts_with("s:2: column 'gpus': "));
    CHECK(bad("model,gpus,seconds\nx,1,1\n").starts_with("s:2: column 'seconds': "));
    CHECK(bad("job,model,gpus,rate\nx,y,1,1\n") == "s:2: column 'job': either job or model is needed");
    CHECK(bad("job,gpus,rate,seconds\nx,1,1,2\n") == "s:2: column 'rate': either rate or seconds is needed");
    CHECK(bad("{\"GPU\": {\"bad key\": {\"null\": 1}}}") == "s: 'bad key' is not as ('model', 2)");
    CHECK(bad("{\"GPU\": {\"('m', 1)\": {\"null\": -1}}}") == "s: GPU: ('m', 1): -1 is not a rate");
    CHECK(bad("{\"GPU\": {\"('m', 1)\": 5}}") == "s: GPU: ('m', 1): no number under \"null\"");
}

TEST_CASE("kinds of GPUs that are used together have one rate") {
    const Cluster cluster = read_cluster("1x4:V100,1x8:P100");
    const JobSpeeds book = parse_speeds(
        "model,kind,gpus,rate\nm,V100,4,10\nm,P100,8,12\nm,V100+P100,4+8,20\nm,V100+K80,1+1,9\n", "s", cluster);
    const TableSpeed& speed = *book.find("", "m")->speed;
    REQUIRE(speed.mixes().size() == 1);  // the cluster has no K80
    CHECK(speed.rate({{{0, 4}, {1, 8}}}, cluster) == 20);
    CHECK(speed.rate({{{0, 4}}}, cluster) == 10);
    CHECK_THROWS_AS(parse_speeds("model,kind,gpus,rate\nm,V100+P100,4,20\n", "s", cluster), Error);
    CHECK_THROWS_AS(parse_speeds("model,kind,gpus,rate\nm,V100+P100,4+8+1,20\n", "s", cluster), Error);
    CHECK_THROWS_AS(parse_speeds("job,kind,gpus,rate\nm,V100+P100,4+8,20\n", "s", cluster), Error);
}

TEST_CASE("jobs take the fastest kind of GPU that has room, and none on which they cannot run") {
    const char* cluster = "1x8:P100,1x4:V100";
    const std::string speeds = "model,kind,gpus,rate\nm,V100,4,10\nm,P100,8,12\nn,P100,2,1\no,P100,2,1\no,V100,2,3\n";
    const std::string jobs = "arrival,gpus,steps,model\n0,4,9,m\n0,8,9,m\n0,2,9,n\n0,2,9,o\n";
    const ParsedTrace trace = trace_of(jobs, cluster, speeds);
    REQUIRE(trace.jobs.size() == 4);
    const GpuPool pool{read_cluster(cluster)};
    CHECK(pool.place(trace.jobs[0], 4)->parts == std::vector<GpuShare>{{1, 4}});
    CHECK(pool.place(trace.jobs[1], 8)->parts == std::vector<GpuShare>{{0, 8}});
    CHECK(pool.place(trace.jobs[2], 2)->parts == std::vector<GpuShare>{{0, 2}});
    CHECK(pool.place(trace.jobs[3], 2)->parts == std::vector<GpuShare>{{1, 2}});
    GpuPool full = pool;
    full.take(trace.jobs[3], std::vector<GpuShare>{{1, 4}});
    CHECK(full.place(trace.jobs[3], 2)->parts == std::vector<GpuShare>{{0, 2}});
    CHECK(fault("arrival,gpus,steps,model\n0,1,9,m\n", cluster, speeds) == "t:2: there is no rate with 1 GPU");
}

TEST_CASE("a cluster is read, or refused with its line") {
    CHECK(read_cluster("2x4:V100,1x8:K80").gpus() == 16);
    CHECK(read_cluster("2×4").hosts.size() == 2);
    const auto bad = [](const std::string& text) {
        try {
            parse_cluster(text, "c");
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    const std::string host = "[[hosts]]\nname = \"a\"\ngpus = 4\n";
    CHECK(bad(host).empty());
    CHECK(bad("") == "c: contains no hosts");
    CHECK(bad(host + host) == "c:4: host 'a' is there twice");
    CHECK(bad("[[hosts]]\nname = \"a\"\ngpus = -1\n") == "c:3: a whole number from 0 to 4096 was expected");
    CHECK(bad("[[hosts]]\ngpus = 1\n") == "c:1: a host needs a name");
    CHECK(bad(host + "speed = 3\n") == "c:4: unknown key 'speed'; name, kind, gpus, cpus and memory are known");
    CHECK(bad(host + "[[tenants]]\nname = \"t\"\nquota = 5\n") ==
          "c:4: tenant 't' has a quota of 5 GPUs, the cluster has 4");
    CHECK_THROWS_AS(read_cluster("0x4"), Error);
    for (const char* wrong : {"8", "2x", "-1x8", "8 x 4"})
        CHECK_THROWS_WITH_AS(
            read_cluster(wrong),
            fmt::format("cluster '{}': neither a file nor hosts in the form 8x4 (8 hosts with 4 GPUs each)", wrong)
                .c_str(),
            Error);
    CHECK_THROWS_AS(read_cluster("2000000x4"), Error);
}

TEST_CASE("models are found by name and by the number of GPUs that a job requests") {
    const Families families = load_families({});
    const JobModels book = parse_models(
        "[[models]]\nname = \"big\"\nmodel = \"gpt3-1.3b\"\nlayout = \"tp=4\"\n"
        "[[models]]\ngpus = 8\nparameters = 1e9\nlayers = 24\nhidden = 2048\n",
        "m", families);
    TraceJob job;
    job.model = "big";
    REQUIRE(book.find(job));
    CHECK(book.find(job)->layout.tp == 4);
    CHECK(parameters(book.find(job)->state) > Index{1'300'000'000});
    job.model = "other";
    CHECK(!book.find(job));
    job.gpus = 8;
    REQUIRE(book.find(job));
    CHECK(book.find(job)->state.layers == 24);
    const auto bad = [&](const std::string& text) {
        try {
            parse_models(text, "m", families);
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(bad("") == "m: no models in it");
    CHECK(bad("[[models]]\nname = \"a\"\n") == "m:1: either model, or parameters, layers and hidden are needed");
    CHECK(bad("[[models]]\nmodel = \"nonesuch\"\n").starts_with("m:1: no such file or built-in model 'nonesuch'"));
    CHECK(bad("[[models]]\nmodel = \"gpt3-1.3b\"\nlayout = \"tp=0\"\n").starts_with("m:3: layout: 'tp=0'"));
    CHECK(bad("[[models]]\nparameters = -5\n") == "m:2: a number from 1 to 1e15 was expected");
    CHECK(bad("[[models]]\nsize = 5\n").starts_with("m:2: unknown key 'size'"));
    CHECK(bad("model = 5\n") == "m:1: unknown key 'model'; models is known");
}

TEST_CASE("outages name hosts of the cluster and end after they begin") {
    const Cluster cluster = read_cluster("2x4");
    const std::vector<Outage> outages = parse_outages("host,begin,end\nn1,10,20\nn0,5,\n", "o", cluster);
    REQUIRE(outages.size() == 2);
    CHECK(outages[0].host == 1);
    CHECK(outages[0].end == 20 * second);
    CHECK(outages[1].end == never);
    const auto bad = [&](const char* text) {
        try {
            parse_outages(text, "o", cluster);
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(bad("host,begin,end\nn7,1,2\n") == "o:2: column 'host': the cluster has no host 'n7'");
    CHECK(bad("host,begin,end\nn0,2,2\n") == "o:2: column 'end': it is not after the begin");
    CHECK(bad("host,begin,end\nn0,-2,2\n") == "o:2: column 'begin': -2 is not from 0 to 1e+09");
    CHECK(bad("machine,begin\nn0,2\n") == "o: no column 'host' in it");
}

TEST_CASE("events change GPUs of hosts, or limits of jobs to valid ones") {
    const Cluster cluster = read_cluster("2x4");
    std::vector<TraceJob> jobs(2);
    jobs[0].name = "rigid", jobs[0].gpus = jobs[0].least = jobs[0].most = 2;
    jobs[1].name = "elastic", jobs[1].gpus = 2, jobs[1].most = 8;
    auto even = std::make_shared<TableSpeed>();
    for (const int gpus : {2, 4, 6, 8}) even->add(any, gpus, gpus);
    jobs[0].speed = even;
    jobs[1].speed = std::make_shared<PowerSpeed>(2, 1);
    const auto read = [&](const std::string& rows) {
        return parse_events("time,host,job,gpus,min_gpus,max_gpus,cpus\n" + rows, "e", cluster, jobs);
    };
    const std::vector<ScriptedEvent> script = read("20,n1,,0,,,\n10,,rigid,4,,,\n30,,elastic,,,4,8\n");
    REQUIRE(script.size() == 3);
    CHECK(script[0].job == 0);
    CHECK(script[0].least == 4);
    CHECK(script[0].most == 4);
    CHECK(script[1].host == 1);
    CHECK(script[1].time == 20 * second);
    CHECK(script[1].gpus == 0);
    CHECK_FALSE(script[2].gpus);
    CHECK(script[2].most == 4);
    CHECK(script[2].cpus == 8);
    const auto bad = [&](const std::string& rows) {
        try {
            read(rows);
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(bad("1,n9,,1,,,\n") == "e:2: column 'host': the cluster has no host 'n9'");
    CHECK(bad("1,n0,,5,,,\n") == "e:2: column 'gpus': host 'n0' has 4 GPUs in the cluster");
    CHECK(bad("1,,other,5,,,\n") == "e:2: column 'job': the trace has no job 'other'");
    CHECK(bad("1,n0,rigid,1,,,\n") == "e:2: column 'host': either host or job is needed");
    CHECK(bad("1,,rigid,1,,,\n") == "e:2: column 'gpus': job 'rigid' would request 1 GPU, with which it cannot run");
    CHECK(bad("1,,elastic,9,,9,\n") == "e:2: column 'gpus': job 'elastic' would request 9 GPUs, but the cluster has 8");
    CHECK(bad("1,,elastic,,,,\n") == "e:2: column 'gpus': a change of a job needs gpus, min_gpus, max_gpus or cpus");
    CHECK(
        bad("5,,elastic,,,4,\n9,,elastic,6,,,\n") ==
        "e:3: column 'gpus': job 'elastic' would request 6 GPUs and may have 1 to 4; give gpus, min_gpus and max_gpus");
}

// Why a text is not a trace.
std::string no_trace(const std::string& text) {
    try {
        (void)trace_of(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST_CASE("a table that is not a trace is refused with the missing columns") {
    CHECK(no_trace("arrival,duration\n0,5\n")
              .starts_with("t: unrecognized trace format: the nearest is that of tpx traces, which lacks column "
                           "'gpus'; found columns "
                           "arrival, duration; known formats: "));
    CHECK(
        no_trace("arrival_time,gpu_demand\n0,5\n").find("that of virtualflow traces, which lacks column 'priority'") !=
        std::string::npos);
    CHECK(no_trace("submit_time,gpu_num\n0,5\n").find("the nearest is a job log, which also needs a duration") !=
          std::string::npos);
    CHECK(no_trace("x,y\n0,5\n").find("none of the columns is of a known format; found columns x, y") !=
          std::string::npos);
    CHECK(no_trace("arrival,gpus\n0,5\n") ==
          "t: the trace has neither a column 'duration' nor 'steps'; it has arrival, gpus");
    CHECK(no_trace("") == "t: it is empty");
    CHECK(no_trace("[]") == "t: it has no jobs");
    CHECK(trace_of("arrival,gpus,duration\n").jobs.empty());
    CHECK(trace_of("Name,Arrival,GPUs,Duration\na,0,1,5\n").jobs[0].name == "a");
    CHECK(trace_of("\xEF\xBB\xBFname;arrival;gpus;duration\r\na;0;1;1.234,5\r\n").jobs[0].work == 1234.5e6);
}

}  // namespace
}  // namespace tpx::formats
