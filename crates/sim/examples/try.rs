use treefold_sim::world::{*,place::*};
use treefold_sim::experiment::trial::*;
use treefold_core::tree::shape::Shape;
use treefold_core::call::CallOptions;
use treefold_core::config::Tuning;
use treefold_core::membership::MembershipConfig;
fn main(){
    let a: Vec<String> = std::env::args().collect();
    let n: usize = a[1].parse().unwrap(); let secs: f64 = a[2].parse().unwrap(); let gossip = a[3]=="gossip"; let het = a[4]=="het";
    let loads: Vec<f64> = a[5].split(',').map(|x|x.parse().unwrap()).collect();
    for &load in &loads { for shape in a[6].split(',') {
        let setting = Setting::micro(1, n as u32);
        let mut world = World::new(setting.clone());
        let mut tuning = Tuning::LAN;
        if std::env::var("NOANT").is_ok() {tuning.anticipate=false;} if std::env::var("NONEWS").is_ok() {tuning.waves_bear_loads=false;}
        if !gossip { tuning.membership = MembershipConfig::still(); }
        let mut k = 0;
        for i in 0..n { let mut spec = Spec::holding([i as u32].into_iter().collect()); spec.tuning = tuning.clone(); if het && i>=n-4 {spec.processors=4;} k+=spec.processors; world.start(spec); }
        let mut spec = Spec::front(); spec.tuning=tuning.clone();
        let nf: usize = std::env::var("FRONTS").ok().map_or(1,|x|x.parse().unwrap()); let fronts: Vec<usize> = (0..nf).map(|_| world.start(spec.clone())).collect();
        if gossip { world.introduce_all(); } else { world.introduce_fronts(&fronts); }
        let s=0.025; let r=0.005;
        let cap = k as f64/(n as f64*s+(n as f64-1.0)*r);
        let t0=std::time::Instant::now();
        let mut trial = Trial::poisson(world,&setting,fronts,cap*load,secs);
        trial.options = CallOptions{shape: shape.parse::<Shape>().unwrap(), ..CallOptions::default()};
        if a.len()>7 { trial.before_call = Some(|w,f| w.tell_truth(f)); }
        let (ledger, world) = trial.run_watched();
        let p = ledger.point(shape,load);
        let dt=t0.elapsed().as_secs_f64();
        println!("{load:.2} rate {:.1} {shape:15} mean {:7.1} p99 {:7.1} thr {:6.2} cov {:.4} calls {} ev {} {:.0} ev/s {:.2}s hash {:x}", cap*load, p.response_ms_mean,p.response_ms_p99,p.throughput_per_s,p.coverage_mean,ledger.ended.len(),world.events(),world.events() as f64/dt,dt,world.trace_hash());
    }}
}
