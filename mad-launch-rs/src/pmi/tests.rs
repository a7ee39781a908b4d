//! What ranks may say, and what they may not.

use proptest::prelude::*;

use super::frame::MESSAGE_MAX;
use super::space::{KVS_MAX, VALUE_MAX};
use super::*;

fn server(size: u32) -> Server {
    Server::new("job".into(), size)
}

fn ask(server: &mut Server, rank: u32, line: &str) -> Vec<(u32, String)> {
    let mut replies = Vec::new();
    server.message(rank, line.as_bytes(), &mut |rank, text| replies.push((rank, text))).unwrap();
    replies
}

#[test]
fn a_client_of_the_standard_gets_through() {
    let mut s = server(1);
    assert!(ask(&mut s, 0, "cmd=init pmi_version=1 pmi_subversion=1")[0].1.contains("rc=0"));
    assert!(ask(&mut s, 0, "cmd=get_maxes")[0].1.starts_with("cmd=maxes kvsname_max=256"));
    assert!(ask(&mut s, 0, "cmd=get_my_kvsname")[0].1.contains("kvsname=job"));
    assert!(ask(&mut s, 0, "cmd=put kvsname=job key=a value=x=y#z")[0].1.contains("rc=0"));
    assert_eq!(
        ask(&mut s, 0, "cmd=get kvsname=job key=a")[0].1,
        "cmd=get_result rc=0 msg=success value=x=y#z\n"
    );
    assert!(ask(&mut s, 0, "cmd=get kvsname=job key=b")[0].1.contains("rc=-1"));
    assert_eq!(ask(&mut s, 0, "cmd=barrier_in")[0].1, "cmd=barrier_out rc=0\n");
    assert!(ask(&mut s, 0, "cmd=finalize")[0].1.starts_with("cmd=finalize_ack"));
}

#[test]
fn barriers_end_together_and_can_be_repeated() {
    let mut s = server(3);
    for _ in 0..2 {
        assert!(ask(&mut s, 0, "cmd=barrier_in").is_empty());
        assert!(ask(&mut s, 2, "cmd=barrier_in").is_empty());
        let out = ask(&mut s, 1, "cmd=barrier_in");
        assert_eq!(out.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1, 2]);
    }
}

#[test]
fn who_waits_for_a_rank_that_has_left_is_told() {
    let mut s = server(2);
    assert!(ask(&mut s, 0, "cmd=barrier_in").is_empty());
    let mut told = Vec::new();
    s.left(1, "rank 1 died".into(), &mut |rank, text| told.push((rank, text)));
    assert_eq!(told, [(0, "cmd=barrier_out rc=-1 msg=rank_1_died\n".into())]);
    assert!(ask(&mut s, 0, "cmd=barrier_in")[0].1.contains("rc=-1"));
}

#[test]
fn abort_carries_its_code() {
    let mut s = server(1);
    let asked = s.message(0, b"cmd=abort exitcode=7 message=out of luck", &mut |_, _| {}).unwrap();
    assert_eq!(asked, Request::Abort { code: 7, message: "out of luck".into() });
    let asked = s.message(0, b"cmd=abort exitcode=nonsense", &mut |_, _| {}).unwrap();
    assert_eq!(asked, Request::Abort { code: 1, message: String::new() });
}

#[test]
fn a_request_for_processes_is_handed_on_whole() {
    let mut s = server(1);
    let mut asked = Vec::new();
    let lines = "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=1\nspawnssofar=1\narg1=x \nargcnt=1\npreput_num=1\n\
                 preput_key_0=PORT\npreput_val_0=here\ninfo_num=0\nendcmd";
    for line in lines.split('\n') {
        asked.push(s.message(0, line.as_bytes(), &mut |_, text| panic!("{text}")).unwrap());
    }
    let Some(Request::Spawn(spawn)) = asked.pop() else { panic!("{asked:?}") };
    assert!(asked.iter().all(|asked| *asked == Request::Nothing));
    assert_eq!(spawn.commands[0].program, "./a b");
    assert_eq!(spawn.commands[0].args, ["x "]);
    // The new processes find what they were left, and which program they are.
    let mut new = Server::spawned("job.1".into(), &spawn, 1);
    assert!(ask(&mut new, 1, "cmd=get kvsname=job.1 key=PORT")[0].1.contains("value=here"));
    assert!(ask(&mut new, 1, "cmd=get_appnum")[0].1.contains("appnum=0"));
    // The next request begins afresh, and one that makes no sense is refused.
    let mut answers = Vec::new();
    for line in ["mcmd=spawn", "nprocs=0", "endcmd"] {
        let _ = s.message(0, line.as_bytes(), &mut |_, text| answers.push(text)).unwrap();
    }
    assert_eq!(answers, ["cmd=spawn_result rc=-1 msg=no_sound_nprocs\n"]);
}

#[test]
fn the_key_value_space_is_bounded() {
    let mut s = server(1);
    let value = "v".repeat(VALUE_MAX);
    let mut refused = false;
    for i in 0..KVS_MAX / VALUE_MAX + 2 {
        refused |=
            ask(&mut s, 0, &format!("cmd=put key=k{i} value={value}"))[0].1.contains("rc=-1");
    }
    assert!(refused);
    assert!(ask(&mut s, 0, &format!("cmd=put key=k value={value}v"))[0].1.contains("too_long"));
}

#[test]
fn putting_again_replaces() {
    let mut s = server(1);
    for i in 0..20_000 {
        assert!(ask(&mut s, 0, &format!("cmd=put key=k value={i:04000}"))[0].1.contains("rc=0"));
    }
}

#[test]
fn overlong_lines_are_refused_in_pieces_too() {
    let mut lines = Frames::default();
    for _ in 0..MESSAGE_MAX {
        lines.feed(b"x", |_| Ok(Version::One)).unwrap();
    }
    assert!(lines.feed(b"x", |_| Ok(Version::One)).is_err());
}

/// What a client of version 2 sends for `text`.
fn framed(text: &str) -> String {
    format!("{:6}{text}", text.len())
}

/// The answers to one message of version 2, their lengths checked.
fn ask2(server: &mut Server, rank: u32, text: &str) -> Vec<(u32, String)> {
    let replies = ask(server, rank, text);
    let unframed = replies.into_iter().map(|(rank, text)| {
        let (length, rest) = text.split_at(6);
        assert_eq!(length.trim().parse(), Ok(rest.len()), "{text}");
        (rank, rest.to_owned())
    });
    unframed.collect()
}

#[test]
fn a_client_of_version_2_gets_through() {
    let mut s = server(1);
    let answer = ask(&mut s, 0, "cmd=init pmi_version=2 pmi_subversion=0");
    assert_eq!(answer[0].1, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
    assert_eq!(s.version(0), Version::Two);
    let answer = ask2(&mut s, 0, "cmd=fullinit;pmijobid=;pmirank=0;threaded=FALSE;");
    assert!(answer[0].1.contains(";rank=0;size=1;") && answer[0].1.ends_with("rc=0;"));
    assert_eq!(
        ask2(&mut s, 0, "cmd=job-getid;thrid=7;")[0].1,
        "cmd=job-getid-response;thrid=7;jobid=job;rc=0;"
    );
    assert!(ask2(&mut s, 0, "cmd=kvs-put;key=a;value=x=y z;")[0].1.ends_with("rc=0;"));
    assert_eq!(
        ask2(&mut s, 0, "cmd=kvs-fence;thrid=9;")[0].1,
        "cmd=kvs-fence-response;thrid=9;rc=0;"
    );
    assert_eq!(
        ask2(&mut s, 0, "cmd=kvs-get;jobid=job;srcid=0;key=a;")[0].1,
        "cmd=kvs-get-response;found=TRUE;value=x=y z;rc=0;"
    );
    assert!(ask2(&mut s, 0, "cmd=kvs-get;key=b;")[0].1.contains("found=FALSE"));
    assert!(ask2(&mut s, 0, "cmd=spawn;")[0].1.contains("rc=-1"));
    assert!(ask2(&mut s, 0, "cmd=finalize;")[0].1.starts_with("cmd=finalize-response;rc=0"));
}

#[test]
fn ranks_of_both_versions_meet() {
    let mut s = server(2);
    ask(&mut s, 1, "cmd=init pmi_version=2 pmi_subversion=0");
    ask(&mut s, 0, "cmd=put key=a value=1");
    assert!(ask(&mut s, 0, "cmd=barrier_in").is_empty());
    let out = ask(&mut s, 1, "cmd=kvs-fence;");
    assert_eq!(out[0], (0, "cmd=barrier_out rc=0\n".into()));
    assert_eq!(out[1], (1, framed("cmd=kvs-fence-response;rc=0;")));
    assert!(ask2(&mut s, 1, "cmd=kvs-get;key=a;")[0].1.contains("value=1;"));
    assert!(ask2(&mut s, 1, "cmd=kvs-fence;").is_empty());
    let mut told = Vec::new();
    s.left(0, "rank 0 died".into(), &mut |rank, text| told.push((rank, text)));
    assert_eq!(told, [(1, framed("cmd=kvs-fence-response;rc=-1;errmsg=rank_0_died;"))]);
}

#[test]
fn a_stream_may_change_its_version_in_the_middle() {
    let stream = format!("cmd=init pmi_version=2\n{}{}", framed("cmd=a;"), framed("cmd=b;\n"));
    for cut in 1..stream.len() {
        let (mut s, mut frames, mut got) = (server(1), Frames::default(), Vec::new());
        for piece in stream.as_bytes().chunks(cut) {
            frames
                .feed(piece, |message| {
                    got.push(String::from_utf8(message.to_vec()).unwrap());
                    s.message(0, message, &mut |_, _| {})?;
                    Ok(s.version(0))
                })
                .unwrap();
        }
        assert_eq!(got, ["cmd=init pmi_version=2", "cmd=a;", "cmd=b;\n"]);
    }
}

#[test]
fn lengths_that_make_no_sense_are_refused() {
    for length in ["     0", "    -1", "999999", "      ", "abcdef", "  8193"] {
        let mut frames = Frames::default();
        frames.feed(b"cmd=init pmi_version=2\n", |_| Ok(Version::Two)).unwrap();
        assert!(frames.feed(length.as_bytes(), |_| Ok(Version::Two)).is_err(), "{length:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(chunks in proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "(cmd|mcmd)=(init|put|get|barrier_in|finalize|abort|spawn|endcmd)( (key|value|exitcode)=[a-z0-9 =]{0,9}){0,3}\n"
                .prop_map(String::into_bytes),
            "cmd=(fullinit|kvs-put|kvs-get|kvs-fence|info-getjobattr|finalize|abort|spawn);((key|value|thrid)=[a-z0-9=]{0,9};){0,3}"
                .prop_map(|text| framed(&text).into_bytes()),
            Just(b"cmd=init pmi_version=2\n".to_vec()),
        ], 0..40)) {
        let mut s = server(2);
        let mut frames = [Frames::default(), Frames::default()];
        for (i, chunk) in chunks.iter().enumerate() {
            let rank = i % 2;
            let fed = frames[rank].feed(chunk, |message| {
                s.message(rank as u32, message, &mut |_, text| assert!(!text.is_empty()))?;
                Ok(s.version(rank as u32))
            });
            if fed.is_err() {
                break;
            }
        }
    }

    #[test]
    fn lines_do_not_depend_on_the_pieces(text in "([a-z]{0,9}\n){0,9}[a-z]{0,9}", cut in 1usize..9) {
        let mut got = Vec::new();
        let mut lines = Frames::default();
        for piece in text.as_bytes().chunks(cut) {
            lines.feed(piece, |line| { got.push(line.to_vec()); Ok(Version::One) }).unwrap();
        }
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let expected: Vec<_> = if text.contains('\n') {
            complete.split('\n').map(|l| l.as_bytes().to_vec()).collect()
        } else { Vec::new() };
        prop_assert_eq!(got, expected);
    }
}
