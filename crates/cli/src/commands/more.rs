//! The commands of a whole build, beside those that the demo shows.

use super::completions::Completions;
use super::config::ConfigArgs;
use super::doctor::Doctor;
use super::faces::FacesArgs;
use super::gateway::GatewayCommand;
use super::index::IndexArgs;
use super::keys::KeysArgs;
use super::man::ManPages;
use super::new::New;
use super::operator::OperatorArgs;
use super::placement::PlacementArgs;
use super::placement::drain::Drain;
use super::push::PushArgs;
use super::replay::Replay;
use super::shares::SharesArgs;
use super::sim::Sim;
use super::sql::Sql;
use super::stream::StreamArgs;
use super::top::Top;
use super::topology::TopologyArgs;
use super::tree::TreeArgs;
use super::up::Up;
use super::vectors::VectorsArgs;
use crate::args::Output;
use crate::commands::bench::Bench;
use crate::exit::{Failure, Verdict};
use crate::on_runtime;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum More {
    New(New),
    Up(Up),
    Sql(Sql),
    Stream(StreamArgs),
    Top(Top),
    Tree(TreeArgs),
    Topology(TopologyArgs),
    Config(ConfigArgs),
    Index(IndexArgs),
    Keys(KeysArgs),
    Gateway(GatewayCommand),
    Placement(PlacementArgs),
    Drain(Drain),
    Doctor(Doctor),
    Shares(SharesArgs),
    Operator(OperatorArgs),
    Push(PushArgs),
    Vectors(VectorsArgs),
    Faces(FacesArgs),
    Replay(Replay),
    Bench(Bench),
    Sim(Sim),
    Completions(Completions),
    #[command(hide = true)]
    Man(ManPages),
}

impl More {
    pub(crate) fn run(self, output: Output) -> Result<Verdict, Failure> {
        let format = || output.for_answers();
        match self {
            Self::Sim(sim) => sim.run(output),
            Self::Sql(sql) => sql.run(output),
            // These need no runtime.
            Self::New(new) => new.run(format()?),
            Self::Tree(tree) => tree.run(format()?),
            Self::Config(config) => config.run(format()?),
            Self::Keys(keys) => keys.run(format()?),
            Self::Index(index) => index.run(format()?),
            Self::Gateway(gateway) => gateway.run(format()?),
            Self::Topology(topology) => topology.run(format()?),
            Self::Completions(completions) => format().and_then(|_| completions.run()),
            Self::Man(man) => format().and_then(|_| man.run()),
            Self::Replay(replay) => replay.run(format()?),
            Self::Vectors(vectors) => on_runtime(vectors.run(format()?)),
            Self::Faces(faces) => on_runtime(faces.run(format()?)),
            Self::Up(up) => on_runtime(up.run(format()?)),
            Self::Stream(stream) => on_runtime(stream.run(format()?)),
            Self::Top(top) => on_runtime(top.run(format()?)),
            Self::Placement(placement) => on_runtime(placement.run(format()?)),
            Self::Drain(drain) => on_runtime(drain.run(format()?)),
            Self::Doctor(doctor) => on_runtime(doctor.run(format()?)),
            Self::Shares(shares) => on_runtime(shares.run(format()?)),
            Self::Operator(operator) => on_runtime(operator.run(format()?)),
            Self::Push(push) => on_runtime(push.run(format()?)),
            Self::Bench(bench) => on_runtime(bench.run(format()?)),
        }
    }
}
