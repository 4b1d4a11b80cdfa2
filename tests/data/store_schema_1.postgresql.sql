--
-- PostgreSQL database dump
--

\restrict 3Cp2xljelxnogfzfygZP4afGrUFWXfxxKWAuamvgWKhUftR4e6VbR9ETBX3Cz1e

-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: darrm_schema; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.darrm_schema (
    version integer NOT NULL
);


--
-- Name: darrm_solutions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.darrm_solutions (
    key text NOT NULL,
    core integer NOT NULL,
    record text NOT NULL,
    digest text NOT NULL,
    created text NOT NULL
);


--
-- Data for Name: darrm_schema; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.darrm_schema VALUES (1);


--
-- Data for Name: darrm_solutions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.darrm_solutions VALUES ('9e3d55db4a216b9d244132772ff24f7cee7b4a78f4fd2a0ab54f7dfa60172f3c', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.2591817793181219,"error_bound":3.708144902248023e-14,"limit":0.25918177931825653,"margin":6.730727086790012e-14,"method":"complete","version":"0.1.0","worst_corners":{"zero":11},"worst_value":0.25918177931808484},"format":1,"gamma":[0.999999999999336,0.9773318291356692,0.999999999999336,0.999999999999336,0.5420900868738601,0.9397026121740512,0.9397026121740512,0.5420900868738601,0.999999999999336,0.999999999999336,0.9773318291356692,0.999999999999336],"gap":9.566791803194974e-13,"method":"cuts","objective":"rectangular","problem":{"Delta":0.0,"K":11,"affected":11,"delta":0.0,"epsilon":0.1,"m":3.0,"target_epsilon":0.3},"shape":"free","statistics":{"iterations":6,"rounds":1,"rows":12,"seconds":{"certify":0.0003317520004202379,"program":0.0034155999983340735,"search":0.0005076839988760184,"total":0.04720912100128771}},"status":"optimal","upper_bound":0.9082424649211245,"utility":0.9082424649201678,"warnings":[]}', '83dcee9db3d4c45583a94ed02c95377d8c11f4a91dd3a52d090361b29480e594', '2026-11-21T15:22:15+00:00');
INSERT INTO public.darrm_solutions VALUES ('a7d30be0b84020821eea81d80ed1611345394c7aeb5df8c10d9b5a89b15b44cf', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.2591817793181219,"error_bound":8.038014698286133e-14,"limit":0.25918177931825653,"margin":6.730727086790012e-14,"method":"monotone","version":"0.1.0","worst_corners":{"xy":3,"zero":8},"worst_value":0.25918177931804154},"format":1,"gamma":[0.9999999999991667,0.9999999999991667,0.9999999999991667,0.9266392124618728,0.7078150095593957,0.7078150095593957,0.7078150095593957,0.7078150095593957,0.9266392124618728,0.9999999999991667,0.9999999999991667,0.9999999999991667],"gap":1.0735856648125264e-12,"method":"cuts","objective":"rectangular","problem":{"Delta":0.0,"K":11,"affected":11,"delta":0.0,"epsilon":0.1,"m":3.0,"target_epsilon":0.3},"shape":"monotone","statistics":{"iterations":5,"rounds":1,"rows":13,"seconds":{"certify":0.0003466649995971238,"program":0.005246440001428709,"search":0.0004289270000299439,"total":0.0077783389988326235}},"status":"optimal","upper_bound":0.9078916412687124,"utility":0.9078916412676388,"warnings":[]}', '2e02b1c979896a98462f6195916d95fd37fe253fda99fe40c081e3b21d6af714', '2026-11-21T15:22:15+00:00');
INSERT INTO public.darrm_solutions VALUES ('9dfd1041c209285ba0ba3ef88bc0c0d000e22046ca97e65a9ca9d39ee1e2da12', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.23524527695551944,"error_bound":9.720002580593246e-14,"limit":0.23524527695570296,"margin":9.175993298526919e-14,"method":"monotone","version":"0.1.0","worst_corners":{"down":3,"xy":8},"worst_value":0.23524527695542224},"format":1,"gamma":[0.9999999999988075,0.9999999999988075,0.9999999999988075,0.8124243635340096,0.8124243635340096,0.8124243635340096,0.8124243635340096,0.8124243635340096,0.8124243635340096,0.9999999999988075,0.9999999999988075,0.9999999999988075],"gap":1.404432126150823e-12,"method":"cuts","objective":"shared(2,5) agreement","problem":{"Delta":0.0001,"K":11,"affected":11,"delta":0.000299970001,"epsilon":0.0892,"m":3.0,"target_epsilon":0.2676},"shape":"monotone","statistics":{"iterations":5,"rounds":1,"rows":16,"seconds":{"certify":0.0007921060005173786,"program":0.0008702320010343101,"search":0.0007844750016374746,"total":0.004387384000438033}},"status":"optimal","upper_bound":0.8992553930527722,"utility":0.8992553930513678,"warnings":[]}', 'ad58e2db6d43aac6b52a5a395d171c969407fc31d1f5494e79359ff888f79306', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('2f6b49a04ad99d05bdff2f5aefa3fe0d3689225cab17b4eff4539b1f09e67bba', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.18131837076703658,"error_bound":1.2357614931346461e-12,"limit":0.18131837076703658,"margin":0.0,"method":"complete","version":"0.1.0","worst_corners":{"down":7,"xy":4},"worst_value":0.18131837076580082},"format":1,"gamma":[0.9999999999931837,0.9999999999931837,0.8440680282700255,0.9999107476156658,0.06124318349226652,0.9958792107550023,0.9958792107550023,0.06124318349226652,0.9999107476156658,0.8440680282700255,0.9999999999931837,0.9999999999931837],"gap":5.837663685781536e-12,"method":"cuts","objective":"uniform","problem":{"Delta":1e-05,"K":11,"affected":11,"delta":3e-05,"epsilon":0.1,"m":2.0,"target_epsilon":0.2},"shape":"free","statistics":{"iterations":9,"rounds":2,"rows":16,"seconds":{"certify":0.007303434000277775,"program":0.001450683001166908,"search":0.015272966000338783,"total":0.030740058999072062}},"status":"optimal","upper_bound":0.7895300583082131,"utility":0.7895300583023754,"warnings":[]}', 'c6d912520e84f58776c168fca261e784ae07adeec2114b951cf59f6df6a0e915', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('20497c48d4399d9a7df99448892912b4e3b6d78a74aacd798c4997023c7b6963', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.3946824016065851,"error_bound":2.531308496145357e-14,"limit":0.39468240160664775,"margin":3.1336044870045043e-14,"method":"monotone","version":"0.1.0","worst_corners":{"xy":2,"zero":6},"worst_value":0.39468240160655976},"format":1,"gamma":[0.6340693790299666,0.5436910594719638,0.39468240160655976,0.2456737437411557,0.0,0.2456737437411557,0.39468240160655976,0.5436910594719638,0.6340693790299666],"gap":1.961208973000339e-13,"method":"cuts","objective":"uniform(lower=0.6)","problem":{"Delta":0.0,"K":8,"affected":2,"delta":0.001,"epsilon":"inf","m":null,"target_epsilon":0.5},"shape":"free","statistics":{"iterations":4,"rounds":4,"rows":9,"seconds":{"certify":0.00015630199959559832,"program":0.002266325998789398,"search":0.0016864129993336974,"total":0.015588363999995636}},"status":"optimal","upper_bound":0.46929973588716845,"utility":0.4692997358869723,"warnings":[]}', '1ded96f16381cf0ccbdadbdcd0b1a75a2a779072fe442e49d4782b3c3560c5dc', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('3bafa5eac32a286c65f009f562db0b8c894c86f18b24ba08ccfde2823e847342', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.09999999999965542,"error_bound":4.440892098500626e-14,"limit":0.09999999999981987,"margin":8.222589276130066e-14,"method":"monotone","version":"0.1.0","worst_corners":{"down_from_one":6,"xy":1},"worst_value":0.09999999999961101},"format":1,"gamma":[0.49999999999760464,0.3571428571411462,0.21428571428468776,0.07142857142822932,0.07142857142822932,0.21428571428468776,0.3571428571411462,0.49999999999760464],"gap":8.0674356084387e-13,"method":"cuts","objective":"rectangular","problem":{"Delta":0.1,"K":7,"affected":7,"delta":0.05,"epsilon":0.0,"m":null,"target_epsilon":0.0},"shape":"free","statistics":{"iterations":5,"rounds":1,"rows":11,"seconds":{"certify":0.0013183880000724457,"program":0.0010938849991362076,"search":0.004647330000807415,"total":0.00928335199932917}},"status":"optimal","upper_bound":0.28841402875989197,"utility":0.28841402875908523,"warnings":["delta = 0.05 is below Delta = 0.1: the release is asked to fail less often than a single voter, so the answer is almost all noise. Were the two swapped?"]}', '2c42c81a8f569a3973382d72bbe2e769929c395ae8bbdb860322627a38d218d3', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('ff7df95c782fae144536ac430da7edaa59e237b183905a13144bae9966b81371', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.0,"error_bound":0.0,"limit":9.99999999999885e-301,"margin":4.999999999999425e-301,"method":"monotone","version":"0.1.0","worst_corners":{"one":1},"worst_value":0.0},"format":1,"gamma":[-0.0,-0.0],"gap":1.8702868081379635e-14,"method":"cuts","objective":"rectangular","problem":{"Delta":0.0,"K":1,"affected":1,"delta":0.0,"epsilon":1.0,"m":1e-300,"target_epsilon":1e-300},"shape":"free","statistics":{"iterations":1,"rounds":1,"rows":2,"seconds":{"certify":2.7100000806967728e-05,"program":0.0008493610002915375,"search":0.00022599499970965553,"total":0.002773377000266919}},"status":"optimal","upper_bound":1.8702868081379635e-14,"utility":0.0,"warnings":[]}', '5b10608b6f89764bd4ebe15cce7f05ea6b1130c92afc34ec2a700dbcacb9597b', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('0214c4b6f4ad01e0812d9431fe0a7ca485731e7c8828181278f36e90889c57d6', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.23524532286689517,"error_bound":3.883005028626485e-14,"limit":0.23524532286700087,"margin":5.284661597215745e-14,"method":"monotone","version":"0.1.0","worst_corners":{"one":1,"xy":1,"zero":9},"worst_value":0.23524532286685634},"format":1,"gamma":[0.7740378966611287,0.7041072311826442,0.6127201378192967,0.4932932629818091,0.3372233201864811,0.13326732554723159,0.13326732554723159,0.3372233201864811,0.4932932629818091,0.6127201378192967,0.7041072311826442,0.7740378966611287],"gap":5.371258993136507e-13,"method":"cuts","objective":"rectangular","problem":{"Delta":0.0,"K":11,"affected":1,"delta":0.0003,"epsilon":"inf","m":null,"target_epsilon":0.2676},"shape":"free","statistics":{"iterations":6,"rounds":6,"rows":7,"seconds":{"certify":0.0002427100007480476,"program":0.0068981860003987094,"search":0.0017767289973562583,"total":0.017336984999928973}},"status":"optimal","upper_bound":0.5209183225063015,"utility":0.5209183225057644,"warnings":[]}', '1d25f80f47313a2d25e80c051257dd62cee0d239fd64524d7264bc3ea5d3f4e4', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('ba97b31983d3d068e054606dbdf5ba5e884e3396358eaefb71a32542567b6ecb', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.39359064641916497,"error_bound":1.2383982728181309e-12,"limit":0.39359064641916497,"margin":0.0,"method":"complete","version":"0.1.0","worst_corners":{"down":8,"xy":2},"worst_value":0.39359064641792657},"format":1,"gamma":[0.9931786169136205,0.6698242603460182,0.33780943645784495,0.0,0.9852062251004217,0.0,0.9852062251004217,0.0,0.33780943645784495,0.6698242603460182,0.9931786169136205],"gap":2.02260430626211e-12,"method":"cuts","objective":"histogram(1,2,3,4,5,6,5,4,3,2,1) agreement","problem":{"Delta":0.001,"K":10,"affected":10,"delta":0.0001,"epsilon":0.5,"m":1.0,"target_epsilon":0.5},"shape":"free","statistics":{"iterations":5,"rounds":2,"rows":18,"seconds":{"certify":0.007793851000315044,"program":0.005486195001140004,"search":0.017531779998535058,"total":0.03360577499915962}},"status":"optimal","upper_bound":0.5514857715007759,"utility":0.5514857714987533,"warnings":["delta = 0.0001 is below Delta = 0.001: the release is asked to fail less often than a single voter, so the answer is almost all noise. Were the two swapped?"]}', '2bcee930f15ded8687b6f9798dff35a4ba6e78ab6ff87deff2daf423cba071e6', '2026-11-21T15:22:16+00:00');
INSERT INTO public.darrm_solutions VALUES ('06d1dfcf6d661dba22f79e7336306034f3b446341377a6c31c2be930846d396c', 1, '{"advice":"The answer is optimal up to its gap.","backend":"highs","certificate":{"bound":0.3935299921401324,"error_bound":4.82280881897168e-13,"limit":0.3935299921401324,"margin":0.0,"method":"complete","version":"0.1.0","worst_corners":{"down":6,"down_from_one":3,"xy":26},"worst_value":0.3935299921396501},"format":1,"gamma":[0.9999999999949718,0.9999999999949718,0.9418258956916298,0.9999999999949718,0.9999999999949718,0.9999999999949718,0.9998410747735341,0.29950755141078855,0.0,0.0,0.0,0.6243485998144362,0.6563835008366552,0.9999999999949718,0.9999999999949718,0.9999999999949718,0.9999999999949718,0.9995993048386593,0.9995993048386593,0.9999999999949718,0.9999999999949718,0.9999999999949718,0.9999999999949718,0.6563835008366552,0.6243485998144362,0.0,0.0,0.0,0.29950755141078855,0.9998410747735341,0.9999999999949718,0.9999999999949718,0.9999999999949718,0.9418258956916298,0.9999999999949718,0.9999999999949718],"gap":2.4278465904359336e-09,"method":"cuts","objective":"expected_error","problem":{"Delta":1e-05,"K":35,"affected":35,"delta":4.9999e-05,"epsilon":0.1,"m":5.0,"target_epsilon":0.5},"shape":"free","statistics":{"iterations":222,"rounds":4,"rows":471,"seconds":{"certify":0.010461312000188627,"program":0.0276518649989157,"search":0.09899536300144973,"total":0.1647084359992732}},"status":"optimal","upper_bound":0.9011586588385097,"utility":0.9011586564106631,"warnings":[]}', 'efae9602ebc58e35d5970a4dc8cf85ed331ada2a2348852cbce8371d32c36f4a', '2026-11-21T15:22:16+00:00');


--
-- Name: darrm_solutions darrm_solutions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.darrm_solutions
    ADD CONSTRAINT darrm_solutions_pkey PRIMARY KEY (key);


--
-- PostgreSQL database dump complete
--

\unrestrict 3Cp2xljelxnogfzfygZP4afGrUFWXfxxKWAuamvgWKhUftR4e6VbR9ETBX3Cz1e

