use super::*;
use crate::scenario::http;

fn args(line: &str) -> ScrapeTargetsArgs {
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ScrapeTargetsArgs,
    }
    let words = ["targets", "--port", "0", "--metrics", "10"].into_iter().chain(line.split_whitespace());
    Cli::try_parse_from(words).unwrap().args
}

async fn get(serving: &Serving, target: u32) -> anyhow::Result<String> {
    let page = http::get(serving.address.port(), &path(target)).await?;
    Ok(String::from_utf8(page.to_vec())?)
}

#[tokio::test]
async fn targets_have_scrapes_of_their_own_and_the_report_names_them() {
    let serving = Serving::start(&args("--targets 2")).await.unwrap();
    for (target, values) in [(0, " 1000010000000\n"), (0, " 1000020000000\n"), (1, " 1000010000000\n")] {
        assert!(get(&serving, target).await.unwrap().contains(values));
    }
    assert!(get(&serving, 2).await.is_err());
    let report = serving.stop().await;
    let whole: Vec<_> = report.targets.iter().map(|target| target.whole.clone()).collect();
    assert_eq!((whole, report.whole(), report.cut()), (vec![vec![(1, 2)], vec![(1, 1)]], 3, 0));
    assert_eq!((report.series, report.samples), (100, 100));
}

#[tokio::test]
async fn refused_scrapes_have_no_number() {
    let serving = Serving::start(&args("--fault-503 50 --seed 1")).await.unwrap();
    let mut served = 0;
    for _ in 0..40 {
        served += u64::from(get(&serving, 0).await.is_ok());
    }
    let report = serving.stop().await;
    assert!(served > 5 && report.refused > 5, "{report:?}");
    assert_eq!((report.refused + served, report.targets[0].whole.clone()), (40, vec![(1, served)]));
}

#[tokio::test]
async fn a_page_that_was_not_read_to_the_end_is_cut() {
    let serving = Serving::start(&args("--hang 100")).await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(serving.address).await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", path(0));
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut half = [0; 2000];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut half).await.unwrap();
    drop(stream);
    let report = serving.stop().await;
    assert_eq!((report.whole(), report.targets[0].cut.clone(), report.hung), (0, vec![(1, 1)], 1));
}
