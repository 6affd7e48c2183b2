BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, row_crc INTEGER, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('format','deixis-annotate',2941634393);
INSERT INTO "about" VALUES('version','4',1671424539);
INSERT INTO "about" VALUES('rules','{"judgements_to_end": 2, "votes_to_review": 5, "bad_boxes_to_review": 5, "flags_to_hold": 2, "independent": true, "verify_own": false, "judges_per_pair": 10, "group_links": false, "skip_singular_coverage": false, "voters_may_draw": false, "question": null}',3914476381);
CREATE TABLE api_tokens (
	id VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	name TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE assignments (
	id VARCHAR NOT NULL, 
	hit VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	items INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	begun_at FLOAT NOT NULL, 
	submit_to TEXT NOT NULL, 
	state VARCHAR NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE barred (
	question INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	PRIMARY KEY (question, worker), 
	FOREIGN KEY(question) REFERENCES questions (number) ON DELETE CASCADE
);
INSERT INTO "barred" VALUES(7,'w5e2174f79551');
CREATE TABLE checks (
	number INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	known INTEGER, 
	event INTEGER, 
	"right" BOOLEAN, row_crc INTEGER, 
	PRIMARY KEY (number), 
	FOREIGN KEY(worker) REFERENCES workers (id), 
	UNIQUE (event)
);
INSERT INTO "checks" VALUES(1,'w666ae5ae3503','drawing','work',NULL,4,1,2919756232);
CREATE TABLE events (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	"key" VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	task VARCHAR, 
	seconds FLOAT NOT NULL, 
	known INTEGER, 
	body JSON NOT NULL, row_crc INTEGER, 
	UNIQUE ("key"), 
	FOREIGN KEY(photo) REFERENCES photos (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "events" VALUES(1,'P7WAFVZUTWhfRckV','dog0','w8b21e5e67f1b',1000.0,'judged','link',0.0,NULL,'{"task": "link", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}',663922155);
INSERT INTO "events" VALUES(2,'uwiDQSjZP4qJBOT2','dog0','w666ae5ae3503',1000.0,'judged','verify',0.0,NULL,'{"task": "verify", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}',3371213483);
INSERT INTO "events" VALUES(3,'ltRavUzQMfcisPPn','dog0','w8b21e5e67f1b',1000.0,'judged','requirement',0.0,NULL,'{"task": "requirement", "subject": "1:0-7", "seconds": 0.0, "answer": "box"}',3774515278);
INSERT INTO "events" VALUES(4,'LEfxjRCo7TsFfCRB','dog0','w666ae5ae3503',1000.0,'judged','drawing',0.0,NULL,'{"task": "drawing", "subject": "1:0-7", "seconds": 0.0, "answer": "drawn", "box": [10.0, 10.0, 60.0, 50.0]}',1098476703);
INSERT INTO "events" VALUES(5,'4KnsVR1cr5aCL23I','dog0','w8b21e5e67f1b',1000.0,'judged','quality',0.0,NULL,'{"task": "quality", "subject": "1:0-7 ?b4", "seconds": 0.0, "answer": "good"}',4129524463);
INSERT INTO "events" VALUES(6,'E2WmCf7BbHZjKNkZ','dog0','w5e2174f79551',1000.0,'judged','coverage',0.0,NULL,'{"task": "coverage", "subject": "1:0-7 b4", "seconds": 0.0, "answer": "all"}',681731325);
CREATE TABLE known (
	number INTEGER NOT NULL, 
	photo VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	answer VARCHAR NOT NULL, 
	boxes JSON NOT NULL, 
	reviewed BOOLEAN NOT NULL, 
	lesson JSON, row_crc INTEGER, 
	PRIMARY KEY (number), 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
CREATE TABLE leases (
	token VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	question INTEGER, 
	known INTEGER, 
	purpose VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	until FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (token), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "leases" VALUES('P7WAFVZUTWhfRckV','w8b21e5e67f1b',1,NULL,'work','link','dog0','0:0-5 1:0-7','{"task": "link", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('uwiDQSjZP4qJBOT2','w666ae5ae3503',3,NULL,'work','verify','dog0','0:0-5 1:0-7','{"task": "verify", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('ltRavUzQMfcisPPn','w8b21e5e67f1b',4,NULL,'work','requirement','dog0','1:0-7','{"task": "requirement", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('LEfxjRCo7TsFfCRB','w666ae5ae3503',5,NULL,'work','drawing','dog0','1:0-7','{"task": "drawing", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('4KnsVR1cr5aCL23I','w8b21e5e67f1b',6,NULL,'work','quality','dog0','1:0-7 ?b4','{"task": "quality", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": [10.0, 10.0, 60.0, 50.0]}',1600.0,'answered');
INSERT INTO "leases" VALUES('E2WmCf7BbHZjKNkZ','w5e2174f79551',7,NULL,'work','coverage','dog0','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',1600.0,'answered');
CREATE TABLE messages (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	webhook VARCHAR NOT NULL, 
	body JSON NOT NULL, 
	attempts INTEGER NOT NULL, 
	due_at FLOAT NOT NULL, 
	error TEXT, 
	failed BOOLEAN NOT NULL, 
	FOREIGN KEY(webhook) REFERENCES webhooks (id) ON DELETE CASCADE
);
CREATE TABLE photos (
	id VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	known BOOLEAN NOT NULL, 
	material JSON NOT NULL, 
	last_event INTEGER NOT NULL, 
	chains INTEGER NOT NULL, 
	waiting INTEGER NOT NULL, 
	finished BOOLEAN NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE (place)
);
INSERT INTO "photos" VALUES('dog0',1,0,'{"photo": "dog0", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',6,1,0,0,2672356087);
INSERT INTO "photos" VALUES('dog1',2,0,'{"photo": "dog1", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',0,1,0,0,3767277995);
CREATE TABLE questions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	photo VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	leased_until FLOAT NOT NULL, 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
INSERT INTO "questions" VALUES(2,'dog1',2,'link','0:0-5 1:0-7','{"task": "link", "photo": "dog1", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',0.0);
INSERT INTO "questions" VALUES(7,'dog0',1,'coverage','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',0.0);
CREATE TABLE remarks (
	event INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	seen BOOLEAN NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (event), 
	FOREIGN KEY(event) REFERENCES events (number)
);
CREATE TABLE requeue (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	PRIMARY KEY (worker, task, photo)
);
CREATE TABLE sessions (
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	until FLOAT NOT NULL, 
	assignment VARCHAR, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE standings (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	level VARCHAR NOT NULL, 
	"after" INTEGER NOT NULL, row_crc INTEGER, 
	PRIMARY KEY (worker, task), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','link','trusted',0,1390544718);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','verify','trusted',0,22575322);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','requirement','trusted',0,2362955122);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','drawing','first items',0,3962402603);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','quality','trusted',0,3453928287);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','coverage','trusted',0,1383766937);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','pair','trusted',0,4286225345);
INSERT INTO "standings" VALUES('w666ae5ae3503','link','trusted',0,515638111);
INSERT INTO "standings" VALUES('w666ae5ae3503','verify','trusted',0,1441584013);
INSERT INTO "standings" VALUES('w666ae5ae3503','requirement','trusted',0,2148439601);
INSERT INTO "standings" VALUES('w666ae5ae3503','drawing','first items',0,3774100584);
INSERT INTO "standings" VALUES('w666ae5ae3503','quality','trusted',0,948286371);
INSERT INTO "standings" VALUES('w666ae5ae3503','coverage','trusted',0,3867442910);
INSERT INTO "standings" VALUES('w666ae5ae3503','pair','trusted',0,3005521872);
INSERT INTO "standings" VALUES('w5e2174f79551','link','trusted',0,1317063763);
INSERT INTO "standings" VALUES('w5e2174f79551','verify','trusted',0,4068610972);
INSERT INTO "standings" VALUES('w5e2174f79551','requirement','trusted',0,147589633);
INSERT INTO "standings" VALUES('w5e2174f79551','drawing','first items',0,1748412504);
INSERT INTO "standings" VALUES('w5e2174f79551','quality','trusted',0,1385364881);
INSERT INTO "standings" VALUES('w5e2174f79551','coverage','trusted',0,775501840);
INSERT INTO "standings" VALUES('w5e2174f79551','pair','trusted',0,3810021596);
CREATE TABLE totals (name TEXT PRIMARY KEY, number INTEGER, crc INTEGER, columns TEXT);
INSERT INTO "totals" VALUES('about',3,8527535313,'"key", "value"');
INSERT INTO "totals" VALUES('photos',2,6439634082,'"id", "place", "known", "material", "last_event", "chains", "waiting", "finished"');
INSERT INTO "totals" VALUES('workers',4,9697945005,'"id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject", "seen_at"');
INSERT INTO "totals" VALUES('events',6,13719383407,'"number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body"');
INSERT INTO "totals" VALUES('remarks',0,0,'"event", "worker", "text", "seen"');
INSERT INTO "totals" VALUES('known',0,0,'"number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson"');
INSERT INTO "totals" VALUES('checks',1,2919756232,'"number", "worker", "task", "purpose", "known", "event", "right"');
INSERT INTO "totals" VALUES('standings',21,45815976985,'"worker", "task", "level", "after"');
INSERT INTO "totals" VALUES('assignments',0,0,'"id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state"');
INSERT INTO "totals" VALUES('commits',3,1368698369,'');
CREATE TABLE webhooks (
	id VARCHAR NOT NULL, 
	url TEXT NOT NULL, 
	secret VARCHAR NOT NULL, 
	kinds JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE workers (
	id VARCHAR NOT NULL, 
	name TEXT, 
	invitation VARCHAR, 
	password TEXT, 
	role VARCHAR NOT NULL, 
	invited_at FLOAT NOT NULL, 
	joined_at FLOAT, 
	vouched BOOLEAN NOT NULL, 
	history_items INTEGER NOT NULL, 
	history_accuracy FLOAT NOT NULL, 
	forgotten BOOLEAN NOT NULL, suspended_at FLOAT, subject VARCHAR, seen_at FLOAT, row_crc INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE (invitation)
);
INSERT INTO "workers" VALUES('w8b21e5e67f1b','Ann','3086011191c1f0b25ae9a0c9859ebf8a851919717b0ddd783e90d6c6624893cf',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,1000.0,4288555608);
INSERT INTO "workers" VALUES('w666ae5ae3503','Bob','87882283647824819f9709f17ee43f8c86d2afbc1ff6ae66201de64a2f2a283b',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,1000.0,88153153);
INSERT INTO "workers" VALUES('w5e2174f79551','Cy','0ab6dc4172312a9873d6cc1ae4f564cac25fd073555517d2a5228e50a6489737',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,1000.0,3211944469);
INSERT INTO "workers" VALUES('w20454a1ff5fc','Dee','f5e6cc49200e509d5216227f062abde3d7657d7680b5f06525210f389c9d0c92',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL,NULL,2109291775);
CREATE INDEX events_of_photo ON events (photo, number);
CREATE INDEX events_of_worker ON events (worker, task);
CREATE INDEX questions_in_order ON questions (place, number);
CREATE INDEX known_of_task ON known (task);
CREATE UNIQUE INDEX one_holder ON leases (question) WHERE state = 'open';
CREATE INDEX leases_of_worker ON leases (worker, state);
CREATE INDEX checks_of_worker ON checks (worker, task);
CREATE INDEX sessions_of_worker ON sessions (worker);
CREATE INDEX tokens_of_worker ON api_tokens (worker);
CREATE INDEX messages_due ON messages (webhook, failed, due_at);
CREATE INDEX leases_by_time ON leases (worker, until);
CREATE TRIGGER about_insert_checksum AFTER INSERT ON about BEGIN UPDATE about SET row_crc = deixis_crc("key", "value") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM about WHERE rowid = NEW.rowid) WHERE name = 'about'; END;
CREATE TRIGGER about_update_checksum AFTER UPDATE OF "key", "value" ON about BEGIN UPDATE about SET row_crc = deixis_crc("key", "value") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM about WHERE rowid = NEW.rowid) WHERE name = 'about'; END;
CREATE TRIGGER about_delete_checksum AFTER DELETE ON about BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'about'; END;
CREATE TRIGGER photos_insert_checksum AFTER INSERT ON photos BEGIN UPDATE photos SET row_crc = deixis_crc("id", "place", "known", "material", "last_event", "chains", "waiting", "finished") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM photos WHERE rowid = NEW.rowid) WHERE name = 'photos'; END;
CREATE TRIGGER photos_update_checksum AFTER UPDATE OF "id", "place", "known", "material", "last_event", "chains", "waiting", "finished" ON photos BEGIN UPDATE photos SET row_crc = deixis_crc("id", "place", "known", "material", "last_event", "chains", "waiting", "finished") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM photos WHERE rowid = NEW.rowid) WHERE name = 'photos'; END;
CREATE TRIGGER photos_delete_checksum AFTER DELETE ON photos BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'photos'; END;
CREATE TRIGGER workers_insert_checksum AFTER INSERT ON workers BEGIN UPDATE workers SET row_crc = deixis_crc("id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject", "seen_at") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM workers WHERE rowid = NEW.rowid) WHERE name = 'workers'; END;
CREATE TRIGGER workers_update_checksum AFTER UPDATE OF "id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject", "seen_at" ON workers BEGIN UPDATE workers SET row_crc = deixis_crc("id", "name", "invitation", "password", "role", "invited_at", "joined_at", "vouched", "history_items", "history_accuracy", "forgotten", "suspended_at", "subject", "seen_at") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM workers WHERE rowid = NEW.rowid) WHERE name = 'workers'; END;
CREATE TRIGGER workers_delete_checksum AFTER DELETE ON workers BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'workers'; END;
CREATE TRIGGER events_insert_checksum AFTER INSERT ON events BEGIN UPDATE events SET row_crc = deixis_crc("number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM events WHERE rowid = NEW.rowid) WHERE name = 'events'; END;
CREATE TRIGGER events_update_checksum AFTER UPDATE OF "number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body" ON events BEGIN UPDATE events SET row_crc = deixis_crc("number", "key", "photo", "worker", "at", "kind", "task", "seconds", "known", "body") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM events WHERE rowid = NEW.rowid) WHERE name = 'events'; END;
CREATE TRIGGER events_delete_checksum AFTER DELETE ON events BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'events'; END;
CREATE TRIGGER remarks_insert_checksum AFTER INSERT ON remarks BEGIN UPDATE remarks SET row_crc = deixis_crc("event", "worker", "text", "seen") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM remarks WHERE rowid = NEW.rowid) WHERE name = 'remarks'; END;
CREATE TRIGGER remarks_update_checksum AFTER UPDATE OF "event", "worker", "text", "seen" ON remarks BEGIN UPDATE remarks SET row_crc = deixis_crc("event", "worker", "text", "seen") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM remarks WHERE rowid = NEW.rowid) WHERE name = 'remarks'; END;
CREATE TRIGGER remarks_delete_checksum AFTER DELETE ON remarks BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'remarks'; END;
CREATE TRIGGER known_insert_checksum AFTER INSERT ON known BEGIN UPDATE known SET row_crc = deixis_crc("number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM known WHERE rowid = NEW.rowid) WHERE name = 'known'; END;
CREATE TRIGGER known_update_checksum AFTER UPDATE OF "number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson" ON known BEGIN UPDATE known SET row_crc = deixis_crc("number", "photo", "task", "subject", "asked", "answer", "boxes", "reviewed", "lesson") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM known WHERE rowid = NEW.rowid) WHERE name = 'known'; END;
CREATE TRIGGER known_delete_checksum AFTER DELETE ON known BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'known'; END;
CREATE TRIGGER checks_insert_checksum AFTER INSERT ON checks BEGIN UPDATE checks SET row_crc = deixis_crc("number", "worker", "task", "purpose", "known", "event", "right") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM checks WHERE rowid = NEW.rowid) WHERE name = 'checks'; END;
CREATE TRIGGER checks_update_checksum AFTER UPDATE OF "number", "worker", "task", "purpose", "known", "event", "right" ON checks BEGIN UPDATE checks SET row_crc = deixis_crc("number", "worker", "task", "purpose", "known", "event", "right") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM checks WHERE rowid = NEW.rowid) WHERE name = 'checks'; END;
CREATE TRIGGER checks_delete_checksum AFTER DELETE ON checks BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'checks'; END;
CREATE TRIGGER standings_insert_checksum AFTER INSERT ON standings BEGIN UPDATE standings SET row_crc = deixis_crc("worker", "task", "level", "after") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM standings WHERE rowid = NEW.rowid) WHERE name = 'standings'; END;
CREATE TRIGGER standings_update_checksum AFTER UPDATE OF "worker", "task", "level", "after" ON standings BEGIN UPDATE standings SET row_crc = deixis_crc("worker", "task", "level", "after") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM standings WHERE rowid = NEW.rowid) WHERE name = 'standings'; END;
CREATE TRIGGER standings_delete_checksum AFTER DELETE ON standings BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'standings'; END;
CREATE TRIGGER assignments_insert_checksum AFTER INSERT ON assignments BEGIN UPDATE assignments SET row_crc = deixis_crc("id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state") WHERE rowid = NEW.rowid;UPDATE totals SET number = number + 1, crc = crc + (SELECT row_crc FROM assignments WHERE rowid = NEW.rowid) WHERE name = 'assignments'; END;
CREATE TRIGGER assignments_update_checksum AFTER UPDATE OF "id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state" ON assignments BEGIN UPDATE assignments SET row_crc = deixis_crc("id", "hit", "worker", "items", "done", "begun_at", "submit_to", "state") WHERE rowid = NEW.rowid;UPDATE totals SET number = number , crc = crc - OLD.row_crc + (SELECT row_crc FROM assignments WHERE rowid = NEW.rowid) WHERE name = 'assignments'; END;
CREATE TRIGGER assignments_delete_checksum AFTER DELETE ON assignments BEGIN UPDATE totals SET number = number - 1, crc = crc - OLD.row_crc WHERE name = 'assignments'; END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('questions',7);
INSERT INTO "sqlite_sequence" VALUES('events',6);
COMMIT;
